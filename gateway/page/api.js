/* SPDX-License-Identifier: Apache-2.0 */

/* An error that the gateway has told, or that it was not reached: status 0. */
class ApiFailure extends Error {
    constructor(status, error, retryAfterSeconds) {
        super(error.message);
        this.status = status;
        this.type = error.type ?? "";
        this.code = error.code ?? "";
        this.param = error.param ?? "";
        this.retryAfterSeconds = retryAfterSeconds;
    }
}

/* Requests to the gateway that served this page, with the token if it wants one. */
const api = {
    wantToken: null, /* asks the user; resolves to whether there is a new token */

    get token() {
        return sessionStorage.getItem("coordgen-token") ?? "";
    },

    set token(text) {
        if (text)
            sessionStorage.setItem("coordgen-token", text);
        else
            sessionStorage.removeItem("coordgen-token");
    },

    async failure(response) {
        let error = null;
        try {
            error = (await response.json()).error;
        } catch {
            /* an answer that is not the gateway's own has a status alone */
        }
        const after = Number(response.headers.get("Retry-After")) || 0;
        error ??= { message: `The gateway answered with status ${response.status}.` };
        return new ApiFailure(response.status, error, after);
    },

    /* Sends a request and returns its response, which is good; anything else is thrown. isQuiet: the user is not asked for
     * a token. */
    async send(path, { body, signal, isQuiet } = {}) {
        for (;;) {
            const used = this.token;
            const headers = used ? { Authorization: `Bearer ${used}` } : {};
            if (body)
                headers["Content-Type"] = "application/json";
            let response;
            try {
                response = await fetch(path, {
                    method: body ? "POST" : "GET", headers, signal, cache: "no-store", credentials: "omit", redirect: "error",
                    body: body && JSON.stringify(body),
                });
            } catch (error) {
                if (error.name === "AbortError")
                    throw error;
                throw new ApiFailure(0, { message: "The gateway cannot be reached. Is coordgen-httpd running?" }, 0);
            }
            if (response.ok)
                return response;
            if (response.status !== 401 || isQuiet || !(this.token !== used || await this.wantToken(used !== "")))
                throw await this.failure(response);
        }
    },

    async get(path, isQuiet = false) {
        return (await this.send(path, { isQuiet })).json();
    },

    /* Yields the values of a stream's events up to [DONE]. An error in the stream is thrown. */
    async *stream(path, body, signal) {
        const response = await this.send(path, { body, signal });
        const reader = response.body.getReader();
        const parser = new EventParser();
        try {
            for (;;) {
                const { value, done } = await this.read(reader);
                for (const data of parser.push(done ? null : value)) {
                    if (data === "[DONE]")
                        return;
                    const event = JSON.parse(data);
                    if (event.error)
                        throw new ApiFailure(event.error.status ?? 500, event.error, 0);
                    yield event;
                }
                if (done)
                    throw new ApiFailure(0, { message: "The answer was broken off: the connection has ended." }, 0);
            }
        } finally {
            reader.cancel().catch(() => {});
        }
    },

    async read(reader) {
        try {
            return await reader.read();
        } catch (error) {
            if (error.name === "AbortError")
                throw error;
            throw new ApiFailure(0, { message: "The answer was broken off: the connection was lost." }, 0);
        }
    },
};

/* Copies a text, and tells so on the button for a moment. */
async function copyText(text, button) {
    const label = button.textContent;
    try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
    } catch {
        button.textContent = "Not permitted";
    }
    setTimeout(() => {
        button.textContent = label;
    }, 1500);
}
