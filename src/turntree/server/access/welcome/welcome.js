// Exchanges the code behind the # of the address for an API key, once the reader asks for it: a
// program that only looks at the address, such as a preview, must not use it up.
const what = document.getElementById("what");
const button = document.getElementById("exchange");

button.addEventListener("click", async () => {
  button.disabled = true;
  const response = await fetch("api/v1/first-key", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code: location.hash.replace(/^#code=/, "") }),
  });
  const answer = await response.json();
  if (response.ok) {
    history.replaceState(null, "", location.pathname);
    document.getElementById("key").textContent = answer.key;
    document.getElementById("next").hidden = false;
    what.textContent = `Copy it now: it is not shown again. It acts for ${answer.holder} and expires at ${answer.expires_at}.`;
  } else {
    what.textContent = `${answer.detail}. Next: ${(answer.next ?? []).join("; ")}`;
  }
});
