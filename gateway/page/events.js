/* SPDX-License-Identifier: Apache-2.0 */
"use strict";

/* Splits the bytes of an event stream into events, wherever the network has cut them. */
class EventParser {
    constructor() {
        this.decoder = new TextDecoder();
        this.rest = "";
        this.data = [];
    }

    /* Takes the next bytes, or none at the end. Returns the data of each event that is whole now. */
    push(bytes) {
        const events = [];
        this.rest += bytes ? this.decoder.decode(bytes, { stream: true }) : this.decoder.decode();
        let start = 0;
        for (;;) {
            const end = this.rest.slice(start).search(/[\r\n]/) + start;
            if (end < start || (this.rest[end] === "\r" && end + 1 === this.rest.length && bytes))
                break; /* a line feed may follow */
            this.take(this.rest.slice(start, end), events);
            start = end + (this.rest.startsWith("\r\n", end) ? 2 : 1);
        }
        this.rest = this.rest.slice(start);
        return events;
    }

    take(line, events) {
        if (line === "") {
            if (this.data.length)
                events.push(this.data.join("\n"));
            this.data = [];
        } else if (line.startsWith("data:")) {
            this.data.push(line.slice(line[5] === " " ? 6 : 5));
        }
    }
}
