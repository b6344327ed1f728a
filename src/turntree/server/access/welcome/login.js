// Logs a person in to the workspace in the address, shows who is logged in and their keys, and logs
// them out. What the server answers is only ever shown as text.
const element = (id) => document.getElementById(id);

async function call(method, path, body) {
  const response = await fetch(`api/v1${path}`, {
    method,
    headers: { "content-type": "application/json", "idempotency-key": crypto.getRandomValues(new Uint32Array(4)).join("-") },
    body: method === "POST" ? JSON.stringify(body ?? {}) : undefined,
  });
  const answer = response.status === 204 ? {} : await response.json();
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

class Refused extends Error {
  constructor(status, problem) {
    const steps = (problem.next ?? []).join("; ");
    super(steps ? `${problem.detail}. Next: ${steps}` : problem.detail);
    this.status = status;
  }
}

function say(text) {
  element("status").textContent = text;
}

async function show() {
  let me;
  try {
    me = await call("GET", "/me");
  } catch (error) {
    if (error.status !== 401) say(error.message);
  }
  element("outside").hidden = me !== undefined;
  element("inside").hidden = me === undefined;
  element("title").textContent = me ? `${me.workspace}: logged in as ${me.user}` : "Log in";
  if (me) await showKeys();
  else element("code").focus();
}

async function showKeys() {
  const { keys } = await call("GET", "/keys");
  const rows = keys.filter((key) => key.state === "valid").map((key) => {
    const row = document.createElement("li");
    row.textContent = `${key.name}, ${key.holder}, until ${key.expires_at.slice(0, 10)}`;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Revoke";
    button.setAttribute("aria-label", `Revoke the key ${key.name}`);
    button.addEventListener("click", () =>
      act(async () => {
        await call("POST", `/keys/${encodeURIComponent(key.id)}/revoke`);
        await show();
        say(`The key ${key.name} is revoked.`);
      }),
    );
    row.append(button);
    return row;
  });
  element("keys").replaceChildren(...rows);
}

async function act(what) {
  say("");
  try {
    await what();
  } catch (error) {
    say(error.message);
  }
}

async function logIn(shown) {
  const login = await call("POST", "/login-sessions", shown);
  for (const id of ["code", "password"]) element(id).value = "";
  await show();
  say(`Logged in until ${login.expires_at.slice(0, 10)}, unless you pause for three days.`);
}

function onSubmit(id, what) {
  element(id).addEventListener("submit", (event) => {
    event.preventDefault();
    act(what);
  });
}

onSubmit("with-code", () => {
  const code = element("code").value.trim();
  return logIn(code.startsWith("tti_") ? { invitation: code } : { key: code });
});
onSubmit("with-password", () => logIn({ name: element("name").value, password: element("password").value }));
onSubmit("new-key", async () => {
  const made = await call("POST", "/keys", { name: element("purpose").value });
  element("purpose").value = "";
  await showKeys();
  element("made").textContent = made.key;
  element("made").focus();
  say("Copy the key now: it is not shown again.");
});
element("leave").addEventListener("click", () =>
  act(async () => {
    await call("POST", "/logout");
    element("made").textContent = "";
    await show();
    say("Logged out.");
  }),
);

// A link to an invitation has its code behind the #, which no server sees. It is not used before the
// person asks for it: a program that only looks at the address must not use it up.
const invited = location.hash.match(/^#code=(\w+)$/);
if (invited) {
  element("code").value = invited[1];
  history.replaceState(null, "", location.pathname);
}
act(show);
