// What pages do where scripts run: without this they all work, but for passkeys.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Times in the browser's zone.
const localize = (root) => all("time[data-local]", root).forEach((t) => {
	const at = new Date(t.dateTime);
	if (isNaN(at)) return;
	t.title = t.textContent;
	const pad = (n) => String(n).padStart(2, "0");
	t.textContent = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
		`${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
	t.removeAttribute("data-local");
});
localize(document);

// Choices that take effect at once need no button.
all("select[data-submit]").forEach((s) => s.addEventListener("change", () => s.form.requestSubmit()));
all("form").forEach((f) => {
	if (f.querySelector("select[data-submit]")) all("button[data-submitted]", f).forEach((b) => b.hidden = true);
});

all("button[data-copy]").forEach((b) => {
	b.hidden = !navigator.clipboard;
	b.addEventListener("click", async () => {
		await navigator.clipboard.writeText(document.getElementById(b.dataset.copy).textContent);
		const was = b.textContent;
		b.textContent = b.dataset.done;
		setTimeout(() => b.textContent = was, 2000);
	});
});

// Requests as they end.
all("[data-live]").forEach((box) => {
	const rows = box.querySelector("[data-live-rows]");
	const source = new EventSource(box.dataset.live);
	for (const state of ["open", "error"]) source.addEventListener(state, () => box.dataset.liveState = state);
	source.addEventListener("row", (e) => {
		const body = document.createElement("tbody");
		body.innerHTML = e.data; // the server has escaped what is in it
		localize(body);
		all("tr", body).forEach((r) => r.classList.add("fresh"));
		rows.prepend(...body.children);
		while (rows.children.length > 200) rows.lastElementChild.remove();
		box.querySelector(".empty")?.remove();
	});
	source.addEventListener("over", () => source.close());
	addEventListener("pagehide", () => source.close());
});

// Passkeys.
const post = async (path, body) => {
	const r = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" },
		body: JSON.stringify(body ?? {}) });
	if (!r.ok) throw new Error(String(r.status));
	return r.json();
};
const passkey = async (ask) => {
	const box = document.querySelector("[data-passkey]");
	const fault = box.querySelector("[data-passkey-fault]");
	fault.hidden = true;
	try {
		await ask();
	} catch (e) {
		fault.hidden = false;
	}
};
// They belong to a host's name: at an address there are none.
const offered = window.PublicKeyCredential?.parseRequestOptionsFromJSON && !/^[\d.]+$|:/.test(location.hostname);
all("[data-passkey]").forEach((b) => b.hidden = !offered);
all("[data-passkey-sign-in]").forEach((b) => b.addEventListener("click", () => passkey(async () => {
	const { challenge, options } = await post("/portal/passkey/begin");
	const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey ?? options);
	const credential = await navigator.credentials.get({ publicKey });
	const { next } = await post("/portal/passkey/finish", { challenge, next: b.dataset.next, credential: credential.toJSON() });
	location.assign(next);
})));
all("[data-passkey-confirm]").forEach((b) => b.addEventListener("click", () => passkey(async () => {
	const { challenge, options } = await post("/portal/passkey/confirm/begin");
	const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey ?? options);
	const credential = await navigator.credentials.get({ publicKey });
	const { next } = await post("/portal/passkey/confirm/finish", { challenge, next: b.dataset.next, credential: credential.toJSON() });
	location.assign(next);
})));
all("[data-passkey-add]").forEach((b) => b.addEventListener("click", () => passkey(async () => {
	const { challenge, options } = await post("/portal/passkey/add/begin");
	const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey ?? options);
	const credential = await navigator.credentials.create({ publicKey });
	const name = document.getElementById("passkey-name").value;
	await post("/portal/passkey/add/finish", { challenge, name, credential: credential.toJSON() });
	location.reload();
})));
