// Logs a person in to the workspace in the address, and leads on to its page: to the place that the
// page names behind the #, or to the first one. At #accounts a person who is logged in links an
// account at an identity provider. What the server answers is only ever shown as text.
const element = (id) => document.getElementById(id);
const place = location.pathname.replace(/\/login$/, "");
const behind = new URLSearchParams(location.hash.slice(1));
// A link has its code behind the #, which no server sees.
const linked = behind.get("code") ?? "";
const kept = `turntree.to ${place}`;
// What a provider sent along. Without the cookie of a login that was begun here it opens nothing.
const sent = new URLSearchParams(location.search);
const answer = Object.fromEntries(["state", "code", "iss", "error"].flatMap((name) => (sent.has(name) ? [[name, sent.get(name)]] : [])));
const wanted = findWanted();

// The place that the page named, and who was there. It is kept nowhere but on the way to an identity provider and back:
// the next person who comes to this tab to log in, or loads it again, finds none.
function findWanted() {
  const back = sessionStorage.getItem(kept);
  sessionStorage.removeItem(kept);
  if (behind.has("to")) return { to: behind.get("to"), of: behind.get("of") };
  if (back !== null && "state" in answer) return JSON.parse(back);
  return { to: "/", of: null };
}

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
    headers: { "content-type": "application/json", "idempotency-key": crypto.getRandomValues(new Uint32Array(4)).join("-") },
    body: method === "POST" ? JSON.stringify(body ?? {}) : undefined,
  });
  const told = response.status === 204 ? {} : await response.json();
  if (!response.ok) throw new Refused(response.status, told);
  return told;
}

class Refused extends Error {
  constructor(status, problem) {
    super([problem.detail, ...(problem.next ?? [])].map(sentence).join(" "));
    this.status = status;
  }
}

// The server writes for programs too: its sentences begin with a small letter and end without a stop.
function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

function say(text) {
  element("status").textContent = text;
}

// A place that one person left is not shown to another.
function onward(me) {
  return addressBelow(wanted.of === null || wanted.of === me.user ? wanted.to : "/");
}

async function goOn() {
  location.replace(onward(await call("GET", "/me")));
}

function only(id) {
  for (const one of ["confirm", "outside", "inside"]) element(one).hidden = one !== id;
}

// Anyone can send a link that logs in as themselves: what is then written here would be theirs. Nothing is used up
// before the person asks for it, also because a program that only looks at the address must not do that.
async function confirmLink() {
  let preview;
  try {
    preview = await call("POST", "/login-previews", credentialsOf(linked));
  } catch (error) {
    await show();
    return say(error.message);
  }
  const me = await call("GET", "/me").catch(() => null);
  const name = preview.holder.replace(/^human:/, "");
  const what = preview.method === "key" ? "This link logs you in" : "This invitation makes you a member and logs you in";
  element("as").textContent = `${what} as ${name} in the workspace ${preview.workspace}, until ${preview.expires_at.slice(0, 10)} at the latest.`;
  element("now").hidden = me === null;
  element("now").textContent = me === null ? "" : `You are logged in here as ${me.user}. That login session ends.`;
  element("title").textContent = `Log in as ${name}?`;
  element("yes").textContent = `Log in as ${name}`;
  only("confirm");
  element("yes").focus();
}

async function show() {
  try {
    const provider = await call("GET", "/identity-provider");
    element("with-provider").hidden = provider.name === null;
    element("provider").textContent = `Log in with ${provider.name}`;
  } catch (error) {
    say(error.message);
  }
  element("title").textContent = "Log in";
  only("outside");
  element("code").focus();
}

async function begin() {
  try {
    await call("GET", "/me");
    if (behind.has("accounts")) await showAccounts();
    else await goOn();
  } catch (error) {
    if (error.status !== 401) say(error.message);
    await show();
  }
}

async function showAccounts() {
  const provider = await call("GET", "/identity-provider");
  const { identities } = await call("GET", "/identities");
  const rows = identities.map((one) => {
    const row = document.createElement("li");
    row.textContent = `${one.issuer}, ${one.holder}, since ${one.linked_at.slice(0, 10)}`;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Unlink";
    button.setAttribute("aria-label", `Unlink the account of ${one.holder} at ${one.issuer}`);
    button.addEventListener("click", () =>
      act(async () => {
        await call("POST", `/identities/${encodeURIComponent(one.id)}/unlink`);
        // It may have been the one with which this session was begun.
        await begin();
        say("The account is unlinked.");
      }),
    );
    row.append(button);
    return row;
  });
  element("identities").replaceChildren(...rows);
  element("none").hidden = rows.length > 0;
  element("title").textContent = "Linked accounts";
  element("link").hidden = provider.name === null;
  element("link").textContent = `Link your ${provider.name} account`;
  element("onward").href = onward(await call("GET", "/me"));
  only("inside");
  element(provider.name === null ? "onward" : "link").focus();
}

// The provider sends the browser back to this page.
async function goToProvider(aim) {
  const { url } = await call("POST", "/identity-logins", { aim });
  sessionStorage.setItem(kept, JSON.stringify(wanted));
  location.assign(url);
}

async function finishLogin() {
  try {
    const finished = await call("POST", "/identity-logins/finish", answer);
    if (finished.expires_at !== null) return await goOn();
    await showAccounts();
    say("The account is linked.");
  } catch (error) {
    try {
      await call("GET", "/me");
      await showAccounts();
    } catch {
      await show();
    }
    say(error.message);
  }
}

async function act(what) {
  say("");
  try {
    await what();
  } catch (error) {
    say(error.message);
  }
}

function logIn(shown) {
  return act(async () => {
    await call("POST", "/login-sessions", shown);
    for (const id of ["code", "password"]) element(id).value = "";
    if (behind.has("accounts")) await showAccounts();
    else await goOn();
  });
}

function credentialsOf(code) {
  return code.startsWith("tti_") ? { invitation: code } : { key: code };
}

function onSubmit(id, credentials) {
  element(id).addEventListener("submit", (event) => {
    event.preventDefault();
    logIn(credentials());
  });
}

onSubmit("confirm", () => credentialsOf(linked));
element("no").addEventListener("click", () => begin());
onSubmit("with-code", () => credentialsOf(element("code").value.trim()));
onSubmit("with-password", () => ({ name: element("name").value, password: element("password").value }));
element("provider").addEventListener("click", () => act(() => goToProvider("login")));
element("link").addEventListener("click", () => act(() => goToProvider("link")));

// A link that is opened where this page is open already changes no more than that.
addEventListener("hashchange", () => location.reload());
if (location.hash || location.search) history.replaceState(null, "", location.pathname);
if ("state" in answer && ("code" in answer || "error" in answer)) finishLogin();
else if (linked) confirmLink();
else begin();
