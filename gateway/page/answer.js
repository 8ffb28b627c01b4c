/* SPDX-License-Identifier: Apache-2.0 */

/* ---- numbers for people ---- */

function inSeconds(ms) {
    return ms < 1 ? "less than 1 ms"
        : ms < 1000 ? `${Math.round(ms)} ms`
        : ms < 60000 ? `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`
        : `${Math.floor(ms / 60000)} min ${Math.round(ms % 60000 / 1000)} s`;
}

function counted(n, noun) {
    return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

function make(name, className, ...children) {
    const made = document.createElement(name);
    if (className)
        made.className = className;
    made.append(...children);
    return made;
}

function makeButton(label, onClick) {
    const button = make("button", "plain", label);
    button.type = "button";
    button.addEventListener("click", () => onClick(button));
    return button;
}

/* ---- where the tokens came from ---- */

/* What the sources of drafts are, for people. */
const SOURCES = {
    lookup: "an earlier place of the last words",
    sam: "repetitions of the text so far",
    history: "your earlier answers",
    calibration: "pairs of words in the prompt",
    table: "what the model held likely before",
    reuse: "the rest of an earlier draft",
    model: "a draft model",
    grammar: "the required form of the answer",
};
const OFF_BY = {
    setting: "Drafts are off by the service’s setting.",
    request: "Drafts are off by the settings of this page.",
    "no-source": "No source of drafts was there.",
};

/* Tells the times of an answer: of its prompt, its tokens, and what its drafts took of that. */
function timesText(timings, explanation) {
    const speed = (perSecond) => perSecond ? ` (${perSecond.toFixed(perSecond < 100 ? 1 : 0)} tokens/s)` : "";
    const part = (name, n, ms, perSecond) => `${name}: ${counted(n, "token")} in ${inSeconds(ms)}${speed(perSecond)}.`;
    const texts = [];
    if (timings?.prompt_n)
        texts.push(part("Prompt", timings.prompt_n, timings.prompt_ms, timings.prompt_per_second));
    if (timings?.predicted_n)
        texts.push(part("Answer", timings.predicted_n, timings.predicted_ms, timings.predicted_per_second));
    if (explanation.draft_ms || explanation.model_ms)
        texts.push(`Making drafts took ${inSeconds((explanation.draft_ms ?? 0) + (explanation.model_ms ?? 0))} of that.`);
    return texts.join(" ");
}

function swatch(part) {
    const made = make("span", "swatch");
    made.style.background = `var(--part-${part})`;
    return made;
}

/* Shows how many tokens the model gave alone, and how many each source drafted. nTokens: of the answer. */
function draftsPanel(explanation, nTokens) {
    const sources = (explanation.sources ?? []).filter((source) => source.drafted_tokens || source.accepted_tokens);
    const nDrafted = sources.reduce((sum, source) => sum + source.accepted_tokens, 0);
    const nAlone = Math.max(nTokens - nDrafted, 0);
    const panel = make("div", "panel");
    if (OFF_BY[explanation.speculation] || !sources.length) {
        const reason = OFF_BY[explanation.speculation] ?? "Nothing was drafted.";
        panel.append(make("p", "", `${reason} The model gave each token by itself.`));
        return panel;
    }
    const steps = explanation.decode_steps ?? 0;
    panel.append(make("p", "", `${counted(nTokens, "token")} in ${counted(steps, "step")} of the model` +
        (steps ? `: ${(nTokens / steps).toFixed(2)} tokens a step. ` : ". ") + "The model verified every draft."));
    const bar = make("div", "bar");
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", `${nAlone} tokens by the model alone, ${nDrafted} from drafts`);
    const rows = make("tbody");
    const addRow = (part, name, drafted, accepted, n) => {
        if (n) {
            const piece = make("span");
            piece.style.background = `var(--part-${part})`;
            piece.style.flexGrow = String(n);
            piece.title = `${name}: ${n}`;
            bar.append(piece);
        }
        const head = make("th", "", swatch(part), name);
        head.scope = "row";
        rows.append(make("tr", "", head, ...[drafted, accepted, n].map((text) => make("td", "", String(text)))));
    };
    addRow("model", "the model alone", "", "", nAlone);
    sources.sort((a, b) => b.accepted_tokens - a.accepted_tokens).forEach((source, index) => {
        const share = source.drafted_tokens ? Math.round(100 * source.accepted_tokens / source.drafted_tokens) : 0;
        addRow(index % 6 + 1, SOURCES[source.name] ?? source.name, source.drafted_tokens, `${share} %`, source.accepted_tokens);
    });
    const heads = ["From", "Drafted", "Right", "Tokens"].map((text) => {
        const head = make("th", "", text);
        head.scope = "col";
        return head;
    });
    panel.append(bar, make("table", "", make("thead", "", make("tr", "", ...heads)), rows));
    return panel;
}

/* ---- an answer on the page ---- */

class AnswerView {
    /* actions: [label, function] for the buttons below the answer */
    constructor(actions) {
        this.raw = "";
        this.reasoning = "";
        this.startedAt = performance.now();
        this.stateText = make("span", "", "Waiting");
        this.progress = make("progress");
        this.progress.hidden = true;
        this.state = make("div", "state", make("span", "spinner"), this.stateText, this.progress);
        this.thoughtHead = make("summary", "", "Thinking");
        this.thoughtText = make("div");
        this.thought = make("details", "thought", this.thoughtHead, this.thoughtText);
        this.thought.hidden = true;
        this.text = make("div", "text");
        this.failure = make("div", "failure");
        this.failure.hidden = true;
        this.failure.setAttribute("role", "alert");
        this.figures = make("span");
        this.copy = makeButton("Copy", (button) => copyText(this.raw, button));
        this.actions = make("div", "actions", this.copy, ...actions.map(([label, fn]) => makeButton(label, fn)));
        this.below = make("div", "below", this.actions, this.figures);
        this.below.hidden = true;
        this.element = make("article", "turn assistant", this.state, this.thought, this.text, this.failure, this.below);
        this.element.setAttribute("aria-label", "Answer");
        this.element.setAttribute("aria-busy", "true");
    }

    /* Tells what the answer waits for; share: of the prompt, or null */
    waitFor(text, share = null) {
        this.stateText.textContent = text;
        this.progress.hidden = share === null;
        if (share !== null)
            this.progress.value = share;
    }

    addReasoning(piece) {
        this.firstAt ??= performance.now();
        this.reasoning += piece;
        this.draw();
    }

    addText(piece) {
        this.firstAt ??= performance.now();
        this.textAt ??= performance.now();
        this.raw += piece;
        this.draw();
    }

    /* Draws at most once a frame; a hidden tab has no frames, and draws with the next one or at the end. */
    draw() {
        this.frame ??= requestAnimationFrame(() => this.drawNow());
    }

    drawNow() {
        cancelAnimationFrame(this.frame);
        this.frame = undefined;
        this.state.hidden = this.isOver || this.raw !== "" || this.reasoning !== "";
        this.element.classList.toggle("writing", !this.isOver && this.raw !== "");
        this.thought.hidden = this.reasoning.trim() === "";
        this.thoughtText.textContent = this.reasoning.trim();
        this.thoughtHead.textContent = this.raw !== "" || this.isOver
            ? `Thought for ${inSeconds((this.textAt ?? performance.now()) - (this.firstAt ?? this.startedAt))}`
            : "Thinking …";
        markdown.show(this.raw, this.text);
        this.onDrawn?.();
    }

    /* Ends the answer. figures: texts; explanation: of the drafts, timings: as the gateway tells them, or undefined */
    finish(figures, { explanation, timings, nTokens } = {}) {
        this.isOver = true;
        this.element.setAttribute("aria-busy", "false");
        this.drawNow();
        this.below.hidden = false;
        this.copy.hidden = this.raw === "";
        this.figures.textContent = figures.join(" · ");
        if (explanation) {
            const panel = draftsPanel(explanation, nTokens);
            panel.append(make("p", "times", timesText(timings, explanation)));
            this.below.append(make("details", "drafts", make("summary", "", "Where the tokens came from"), panel));
        }
    }

    fail(failure) {
        const title = failure.status === 0 ? "No connection" : failure.status === 429 || failure.status === 503 ? "Not now"
            : failure.status === 401 || failure.status === 403 ? "Not permitted" : "The request failed";
        const after = failure.retryAfterSeconds ? ` Try again in ${counted(failure.retryAfterSeconds, "second")}.` : "";
        this.failure.replaceChildren(make("strong", "", title), make("p", "", failure.message + after));
        this.failure.hidden = false;
        this.finish([]);
    }
}
