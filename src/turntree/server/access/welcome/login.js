// Logs a person in to the workspace in the address, and leads on to its page: to the place that the
// page names behind the #, or to the first one. What the server answers is only ever shown as text.
const element = (id) => document.getElementById(id);
const place = location.pathname.replace(/\/login$/, "");
const behind = new URLSearchParams(location.hash.slice(1));
// Kept while the person logs in elsewhere and comes back to this page without it.
const kept = `turntree.to ${place}`;
if (behind.has("to")) sessionStorage.setItem(kept, behind.get("to"));
const onward = addressBelow(sessionStorage.getItem(kept) ?? "/");

// The address of a place of the page, and never one elsewhere: any site can link to this page.
function addressBelow(path) {
  const url = new URL(`${place}/${path.replace(/^\//, "")}`, location.origin);
  const rest = url.pathname.slice(place.length);
  const isPage = url.pathname.startsWith(`${place}/`) && !/^\/(api|login|welcome)(\/|$)/.test(rest);
  return isPage ? url.pathname + url.search : `${place}/`;
}

async function call(method, path, body) {
  const response = await fetch(`api/v1${path}`, {
    method,
    headers: { "content-type": "application/json" },
    body: method === "POST" ? JSON.stringify(body ?? {}) : undefined,
  });
  const answer = await response.json();
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

function goOn() {
  sessionStorage.removeItem(kept);
  location.replace(onward);
}

function show() {
  element("outside").hidden = false;
  element("code").focus();
}

async function begin() {
  try {
    await call("GET", "/me");
    goOn();
  } catch (error) {
    if (error.status !== 401) say(error.message);
    show();
  }
}

async function logIn(shown) {
  say("");
  try {
    await call("POST", "/login-sessions", shown);
    for (const id of ["code", "password"]) element(id).value = "";
    goOn();
  } catch (error) {
    say(error.message);
  }
}

function onSubmit(id, credentials) {
  element(id).addEventListener("submit", (event) => {
    event.preventDefault();
    logIn(credentials());
  });
}

onSubmit("with-code", () => {
  const code = element("code").value.trim();
  return code.startsWith("tti_") ? { invitation: code } : { key: code };
});
onSubmit("with-password", () => ({ name: element("name").value, password: element("password").value }));

// A link to an invitation has its code behind the #, which no server sees. It is not used before the
// person asks for it: a program that only looks at the address must not use it up. It may be for
// another person than the one who is logged in here.
element("code").value = behind.get("code") ?? "";
if (location.hash) history.replaceState(null, "", location.pathname);
if (behind.has("code")) show();
else begin();
