/* SPDX-License-Identifier: Apache-2.0 */

const byId = (id) => document.getElementById(id);

/* ---- settings ---- */

const FIELDS = ["model", "temperature", "max-tokens", "thinking", "speculation", "no-history"];

function saveSettings() {
    const values = {};
    for (const name of FIELDS)
        values[name] = byId(name).type === "checkbox" ? byId(name).checked : byId(name).value;
    values.theme = document.querySelector("input[name=theme]:checked").value;
    document.documentElement.dataset.theme = values.theme;
    localStorage.setItem("coordgen-settings", JSON.stringify(values));
    sessionStorage.setItem("coordgen-system", byId("system").value);
}

function loadSettings() {
    let values = {};
    try {
        values = JSON.parse(localStorage.getItem("coordgen-settings")) ?? {};
    } catch {
        /* damaged settings count as none */
    }
    for (const name of FIELDS.filter((field) => field !== "model")) {
        if (byId(name).type === "checkbox")
            byId(name).checked = values[name] === true;
        else if (typeof values[name] === "string")
            byId(name).value = values[name];
    }
    for (const choice of document.querySelectorAll("input[name=theme]"))
        choice.checked = choice.value === (values.theme ?? "");
    document.documentElement.dataset.theme = values.theme ?? "";
    byId("system").value = sessionStorage.getItem("coordgen-system") ?? "";
    return values;
}

/* Fills the list of models; the choice stays if there still is such a model. */
async function loadModels(wanted) {
    const list = (await api.get("/v1/models")).data;
    const choice = byId("model");
    const usual = list.find((model) => model.default);
    choice.replaceChildren(new Option(usual ? `${usual.id} (default)` : "Default model", ""),
                           ...list.filter((model) => model !== usual).map((model) => new Option(model.id, model.id)));
    choice.value = [...choice.options].some((option) => option.value === wanted) ? wanted : "";
}

/* ---- the token ---- */

let tokenWait = null;

/* Asks for the token. Resolves to false if the user does not give one. */
function askToken(isWrong) {
    tokenWait ??= new Promise((resolve) => {
        const dialog = byId("token-dialog");
        byId("token-why").textContent = isWrong ? "The gateway refused this token. Please check it."
            : "This gateway asks for a token. The file that its option --token-file names has it.";
        byId("token").value = "";
        const end = () => {
            tokenWait = null;
            byId("forget-token").hidden = api.token === "";
            resolve(dialog.returnValue === "given");
        };
        dialog.returnValue = "";
        dialog.addEventListener("close", end, { once: true });
        dialog.showModal();
    });
    return tokenWait;
}

/* ---- the conversation ---- */

/* Ends of an answer that its reader should know of. */
const ENDS = {
    "max-tokens": "cut off at the limit of tokens",
    "context-full": "cut off: the conversation fills the model’s context",
    repetition: "ended because it repeated itself",
};

const chat = {
    messages: [], /* {role, content, reasoning} */
    running: null, /* AbortController of the answer that is being written */

    save() {
        try {
            sessionStorage.setItem("coordgen-chat", JSON.stringify(this.messages));
        } catch {
            sessionStorage.removeItem("coordgen-chat"); /* too long to be kept over a reload */
        }
    },

    restore() {
        let messages = [];
        try {
            messages = JSON.parse(sessionStorage.getItem("coordgen-chat")) ?? [];
        } catch {
            /* a damaged conversation counts as none */
        }
        for (const message of messages) {
            if (message.role === "user") {
                this.addUser(message.content);
            } else {
                const view = this.addView();
                view.raw = message.content;
                view.reasoning = message.reasoning ?? "";
                view.finish([]);
            }
            this.messages.push(message);
        }
    },

    clear() {
        this.running?.abort();
        this.messages = [];
        byId("log").replaceChildren();
        this.changed();
        byId("prompt").focus();
    },

    changed() {
        const isEmpty = byId("log").childElementCount === 0;
        byId("welcome").hidden = !isEmpty;
        byId("send").hidden = this.running !== null;
        byId("stop").hidden = this.running === null;
        byId("send").disabled = byId("prompt").value.trim() === "";
        this.save();
    },

    addUser(text) {
        const index = this.messages.length;
        const edit = makeButton("Edit", () => this.edit(index));
        const turn = make("article", "turn user", edit, make("div", "said", text));
        turn.setAttribute("aria-label", "You");
        byId("log").append(turn);
    },

    addView() {
        const view = new AnswerView([["Try again", () => this.again(view)]]);
        view.onDrawn = () => sticks && toEnd();
        byId("log").append(view.element);
        return view;
    },

    /* Cuts the conversation before a message. */
    cut(index) {
        this.running?.abort();
        this.messages.length = index;
        while (byId("log").childElementCount > index)
            byId("log").lastElementChild.remove();
    },

    edit(index) {
        const text = this.messages[index].content;
        this.cut(index);
        byId("prompt").value = text;
        this.changed();
        fitPrompt();
        byId("prompt").focus();
    },

    /* Asks for another answer in the place of one. */
    again(view) {
        const index = [...byId("log").children].indexOf(view.element);
        if (index < 1)
            return;
        this.cut(index);
        this.answer();
    },

    say(text) {
        if (this.running || text.trim() === "")
            return;
        this.addUser(text);
        this.messages.push({ role: "user", content: text });
        toEnd();
        this.answer();
    },

    request() {
        const body = {
            messages: [], stream: true, stream_options: { include_usage: true }, return_progress: true, explain: true,
        };
        const setNumber = (name, id) => {
            if (byId(id).value !== "")
                body[name] = Number(byId(id).value);
        };
        if (byId("system").value.trim())
            body.messages.push({ role: "system", content: byId("system").value });
        this.messages.forEach(({ role, content }, index) => {
            const answer = role === "user" ? this.messages[index + 1] : this.messages[index];
            if (!answer || answer.content !== "") /* a question without an answer is left out */
                body.messages.push({ role, content });
        });
        if (byId("model").value)
            body.model = byId("model").value;
        setNumber("temperature", "temperature");
        setNumber("max_tokens", "max-tokens");
        setNumber("thinking_tokens", "thinking");
        if (byId("speculation").value)
            body.speculation = byId("speculation").value;
        if (byId("no-history").checked)
            body.no_history = true;
        return body;
    },

    async answer() {
        const abort = new AbortController();
        const view = this.addView();
        const end = {};
        const body = this.request();
        this.running = abort;
        this.changed();
        toEnd();
        try {
            for await (const event of api.stream("/v1/chat/completions", body, abort.signal))
                this.take(view, event, end);
        } catch (error) {
            if (error.name === "AbortError")
                end.isStopped = true;
            else
                end.failure = error instanceof ApiFailure ? error : new ApiFailure(500, { message: String(error.message) }, 0);
        }
        if (this.running === abort)
            this.running = null;
        if (view.element.isConnected) {
            this.messages.push({ role: "assistant", content: view.raw, reasoning: view.reasoning });
            if (end.failure)
                view.fail(end.failure);
            else
                view.finish(this.figures(view, end), {
                    explanation: end.coordgen?.explanation, timings: end.timings, nTokens: end.timings?.predicted_n ?? 0,
                });
            byId("announcer").textContent = end.failure ? "The request failed."
                : end.isStopped ? "Stopped." : "The answer is complete.";
        }
        this.changed();
    },

    /* Takes an event of the stream: a part of the answer, progress, or what stands at its end. */
    take(view, event, end) {
        const delta = event.choices?.[0]?.delta;
        if (event.prompt_progress) {
            const { total, processed } = event.prompt_progress;
            view.waitFor("Reading the prompt", total ? processed / total : null);
        }
        if (delta?.reasoning_content)
            view.addReasoning(delta.reasoning_content);
        if (delta?.content)
            view.addText(delta.content);
        end.model = event.model ?? end.model;
        end.usage = event.usage ?? end.usage;
        end.timings = event.timings ?? end.timings;
        end.coordgen = event.coordgen ?? end.coordgen;
    },

    figures(view, end) {
        const texts = [];
        const nTokens = end.timings?.predicted_n ?? end.usage?.completion_tokens;
        if (end.isStopped)
            texts.push("stopped");
        if (ENDS[end.coordgen?.end_reason])
            texts.push(ENDS[end.coordgen.end_reason]);
        if (nTokens !== undefined)
            texts.push(counted(nTokens, "token"));
        if (end.timings?.predicted_per_second)
            texts.push(`${end.timings.predicted_per_second.toFixed(1)} tokens/s`);
        if (view.firstAt)
            texts.push(`first one after ${inSeconds(view.firstAt - view.startedAt)}`);
        if (end.usage) {
            const cached = end.usage.prompt_tokens_details?.cached_tokens;
            texts.push(`prompt ${counted(end.usage.prompt_tokens, "token")}${cached ? `, ${cached} of them cached` : ""}`);
        }
        if (end.model)
            texts.push(end.model);
        return texts;
    },
};

/* ---- the window ---- */

let sticks = true; /* whether the end of a growing answer stays in view */

function nearEnd() {
    return window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 120;
}

function toEnd() {
    window.scrollTo(0, document.documentElement.scrollHeight);
    sticks = true;
}

function onScroll() {
    document.body.classList.toggle("scrolled", window.scrollY > 4);
    sticks = nearEnd();
    byId("to-end").hidden = sticks;
}

/* Lets the message field grow with its text. */
function fitPrompt() {
    const prompt = byId("prompt");
    prompt.style.height = "auto";
    prompt.style.height = `${prompt.scrollHeight}px`;
    byId("send").disabled = prompt.value.trim() === "";
}

function sendPrompt() {
    const prompt = byId("prompt");
    if (chat.running || prompt.value.trim() === "")
        return;
    const text = prompt.value;
    prompt.value = "";
    fitPrompt();
    chat.say(text);
}

function onKey(event) {
    if (document.querySelector("dialog[open]"))
        return;
    if (event.key === "Escape" && chat.running) {
        event.preventDefault();
        chat.running.abort();
    } else if (event.key === "/" && !event.ctrlKey && !event.metaKey &&
               !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
        event.preventDefault();
        byId("prompt").focus();
    }
}

/* ---- the state of the service ---- */

function tellHealth(state, text, title = text) {
    byId("health").dataset.state = state;
    byId("health-text").textContent = text;
    byId("health").title = title;
}

/* The state of a service that is not ready, by the code of the error. */
const HEALTH = {
    loading: ["loading", "Loading the model"],
    no_model: ["gone", "No model"],
    model_failed: ["gone", "The model has failed"],
    unreachable: ["gone", "The service is down"],
    disconnected: ["gone", "The service is down"],
};

/* Asks whether the service is ready: often until it is, then seldom. */
async function watchHealth() {
    let wait = 20000;
    if (!document.hidden) {
        try {
            await api.get("/health", true);
            tellHealth("ready", "Ready");
        } catch (error) {
            wait = 2000;
            tellHealth(...HEALTH[error.code] ?? ["gone", error.status === 0 ? "Not reached" : "Not ready"], error.message);
        }
    }
    setTimeout(watchHealth, wait);
}

/* ---- events ---- */

function listen() {
    byId("composer").addEventListener("submit", (event) => {
        event.preventDefault();
        sendPrompt();
    });
    byId("prompt").addEventListener("input", fitPrompt);
    byId("prompt").addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            sendPrompt();
        }
    });
    byId("stop").addEventListener("click", () => chat.running?.abort());
    byId("new-chat").addEventListener("click", () => chat.clear());
    byId("to-end").addEventListener("click", toEnd);
    for (const example of document.querySelectorAll(".example"))
        example.addEventListener("click", () => chat.say(example.textContent));
    byId("model").addEventListener("change", saveSettings);
    byId("open-settings").addEventListener("click", () => byId("settings").showModal());
    byId("close-settings").addEventListener("click", () => byId("settings").close());
    byId("settings").addEventListener("click", (event) => event.target === byId("settings") && byId("settings").close());
    byId("settings-form").addEventListener("input", saveSettings);
    byId("settings-form").addEventListener("submit", (event) => {
        event.preventDefault();
        byId("settings").close();
    });
    byId("forget-token").addEventListener("click", () => {
        api.token = "";
        byId("forget-token").hidden = true;
    });
    byId("token-form").addEventListener("submit", (event) => {
        event.preventDefault();
        api.token = byId("token").value.trim();
        byId("token-dialog").close("given");
    });
    byId("token-cancel").addEventListener("click", () => byId("token-dialog").close(""));
    document.addEventListener("keydown", onKey);
    window.addEventListener("scroll", onScroll, { passive: true });
}

async function begin() {
    const settings = loadSettings();
    api.wantToken = askToken;
    byId("forget-token").hidden = api.token === "";
    listen();
    chat.restore();
    chat.changed();
    fitPrompt();
    toEnd();
    try {
        await loadModels(settings.model);
    } catch {
        /* the state of the service tells what is wrong, beside the name */
    }
    watchHealth();
}

begin();
