/* SPDX-License-Identifier: Apache-2.0 */

/* Shows a part of Markdown as elements. Text of the model reaches the page as text nodes only, never as markup. */
const markdown = (() => {
    const INLINE = new RegExp(
        "(`+)(?<code>.+?)\\1(?!`)" +
        "|\\[(?<label>[^\\[\\]]+)\\]\\((?<address>[^\\s()<>]+(?:\\([^\\s()<>]*\\)[^\\s()<>]*)*)\\)" +
        "|(?<bare>https?:\\/\\/[^\\s<>()\\[\\]\"'`]+[^\\s<>()\\[\\]\"'`.,;:!?])" +
        "|\\*\\*(?<strong>(?=\\S).+?\\S?)\\*\\*(?!\\*)" +
        "|__(?<strong2>(?=\\S).+?\\S?)__(?!\\w)" +
        "|(?<![\\w*])\\*(?<em>(?=[^\\s*]).+?)(?<![\\s*])\\*(?!\\*)" +
        "|(?<![\\w_])_(?<em2>(?=[^\\s_]).+?)(?<![\\s_])_(?!\\w)" +
        "|~~(?<gone>(?=\\S).+?)~~" +
        "|\\\\(?<escaped>[\\\\`*_{}\\[\\]()#+.!|~>-])", "s");
    const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
    const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([^`\s]*).*$/;
    const INLINE_MAX = 20000; /* characters of a paragraph that are searched for marks */

    function element(name, ...children) {
        const made = document.createElement(name);
        made.append(...children);
        return made;
    }

    /* Returns an address if a link may have it, else null. */
    function safeAddress(text) {
        const address = text.replace(/\\(.)/g, "$1");
        return /^(https?:\/\/|mailto:)/i.test(address) ? address : null;
    }

    function link(address, children) {
        const made = element("a", ...children);
        made.href = address;
        made.target = "_blank";
        made.rel = "noopener noreferrer nofollow";
        return made;
    }

    function inlineNode(match, depth) {
        const found = match.groups;
        if (found.code !== undefined)
            return element("code", found.code.replace(/^ (.*\S.*) $/s, "$1"));
        if (found.escaped !== undefined)
            return found.escaped;
        if (found.bare !== undefined)
            return link(found.bare, [found.bare]);
        if (found.label !== undefined) {
            const address = safeAddress(found.address);
            return address ? link(address, inline(found.label, depth + 1)) : match[0];
        }
        const [name, text] = found.gone !== undefined ? ["del", found.gone]
            : found.strong !== undefined || found.strong2 !== undefined ? ["strong", found.strong ?? found.strong2]
                : ["em", found.em ?? found.em2];
        return element(name, ...inline(text, depth + 1));
    }

    /* Returns the nodes of a text within a block. */
    function inline(text, depth = 0) {
        const nodes = [];
        let rest = text;
        while (rest && depth < 6 && rest.length <= INLINE_MAX) {
            const match = INLINE.exec(rest);
            if (!match)
                break;
            if (match.index)
                nodes.push(rest.slice(0, match.index));
            nodes.push(inlineNode(match, depth));
            rest = rest.slice(match.index + match[0].length);
        }
        if (rest)
            nodes.push(rest);
        return nodes;
    }

    /* ---- blocks: cut the text into pieces of {kind, source, ...} ---- */

    function isRule(line) {
        return /^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line);
    }

    function startsBlock(line) {
        return FENCE.test(line) || /^#{1,6}\s/.test(line) || /^\s{0,3}>/.test(line) || ITEM.test(line) || isRule(line);
    }

    function isTable(lines, at) {
        return lines[at].includes("|") && at + 1 < lines.length &&
            /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[at + 1]);
    }

    /* Returns the line behind a block that begins at a line. */
    function endOf(lines, at) {
        const fence = FENCE.exec(lines[at]);
        let end = at + 1;
        if (fence) {
            const close = new RegExp("^\\s{0,3}" + fence[1][0] + "{" + fence[1].length + ",}\\s*$");
            while (end < lines.length && !close.test(lines[end]))
                end++;
            return Math.min(end + 1, lines.length);
        }
        if (/^#{1,6}\s/.test(lines[at]) || (isRule(lines[at])))
            return end;
        if (/^\s{0,3}>/.test(lines[at])) {
            while (end < lines.length && lines[end].trim() && !/^(#{1,6}\s|\s{0,3}(```|~~~))/.test(lines[end]))
                end++;
            return end;
        }
        if (ITEM.test(lines[at])) {
            for (; end < lines.length; end++) {
                const isInside = ITEM.test(lines[end]) || /^\s{2,}\S/.test(lines[end]);
                const goesOn = lines[end].trim() ? isInside || (lines[end - 1].trim() && !startsBlock(lines[end]))
                    : end + 1 < lines.length && (/^\s{2,}\S/.test(lines[end + 1]) || ITEM.test(lines[end + 1]));
                if (!goesOn)
                    break;
            }
            return end;
        }
        if (isTable(lines, at)) {
            while (end < lines.length && lines[end].includes("|"))
                end++;
            return end;
        }
        while (end < lines.length && lines[end].trim() && !startsBlock(lines[end]) && !isTable(lines, end))
            end++;
        return end;
    }

    /* Returns the source texts of the blocks of a text. */
    function split(text) {
        const lines = text.replace(/\r\n?/g, "\n").split("\n");
        const blocks = [];
        for (let at = 0; at < lines.length;) {
            const end = lines[at].trim() ? endOf(lines, at) : at + 1;
            if (lines[at].trim())
                blocks.push(lines.slice(at, end).join("\n"));
            at = end;
        }
        return blocks;
    }

    /* ---- blocks to elements ---- */

    function codeBlock(source) {
        const lines = source.split("\n");
        const fence = FENCE.exec(lines[0]);
        const isClosed = lines.length > 1 && /^\s{0,3}(`{3,}|~{3,})\s*$/.test(lines[lines.length - 1]);
        const code = lines.slice(1, isClosed ? -1 : undefined).join("\n");
        const copy = element("button", "Copy");
        copy.type = "button";
        copy.addEventListener("click", () => copyText(code, copy));
        const head = element("div", element("span", fence[2].slice(0, 30) || "text"), copy);
        head.className = "code-head";
        const box = element("div", head, element("pre", element("code", code)));
        box.className = "code";
        return box;
    }

    function listBlock(lines, depth) {
        const first = ITEM.exec(lines[0]);
        const isOrdered = /\d/.test(first[2]);
        const list = document.createElement(isOrdered ? "ol" : "ul");
        if (isOrdered && parseInt(first[2], 10) !== 1)
            list.start = parseInt(first[2], 10);
        const indent = first[1].length;
        for (let at = 0; at < lines.length;) {
            const item = ITEM.exec(lines[at]);
            let end = at + 1;
            for (let next; end < lines.length; end++) {
                next = ITEM.exec(lines[end]);
                if (next && next[1].length <= indent + 1)
                    break;
            }
            const inner = lines.slice(at + 1, end).map((line) => line.replace(/^(\t| {1,4})/, ""));
            list.append(listItem(item[3], inner, depth));
            at = end;
        }
        return list;
    }

    function listItem(text, inner, depth) {
        let n = 0;
        while (n < inner.length && inner[n].trim() && !startsBlock(inner[n].trimStart()))
            n++;
        const item = element("li", ...inline([text, ...inner.slice(0, n).map((line) => line.trim())].join("\n")));
        const rest = unindent(inner.slice(n));
        if (rest.trim())
            item.append(...blocksOf(rest, depth + 1));
        return item;
    }

    /* Takes the common indentation away, so that code in an item keeps its own. */
    function unindent(lines) {
        const depths = lines.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length);
        const common = depths.length ? Math.min(...depths) : 0;
        return lines.map((line) => line.slice(common)).join("\n");
    }

    function cells(line) {
        return line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/).map((cell) => cell.trim());
    }

    function table(lines) {
        const row = (line, name) => element("tr", ...cells(line).map((cell) => element(name, ...inline(cell))));
        const made = element("table", element("thead", row(lines[0], "th")),
                             element("tbody", ...lines.slice(2).map((line) => row(line, "td"))));
        const box = element("div", made);
        box.className = "scroll";
        return box;
    }

    function block(source, depth = 0) {
        const lines = source.split("\n");
        const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(source);
        if (FENCE.test(lines[0]))
            return codeBlock(source);
        if (heading)
            return element(heading[1].length === 1 ? "h2" : heading[1].length === 2 ? "h3" : "h4", ...inline(heading[2]));
        if (isRule(lines[0]))
            return element("hr");
        if (/^\s{0,3}>/.test(lines[0]) && depth < 6) {
            const said = lines.map((line) => line.replace(/^\s{0,3}> ?/, "")).join("\n");
            return element("blockquote", ...blocksOf(said, depth + 1));
        }
        if (ITEM.test(lines[0]) && depth < 6)
            return listBlock(lines, depth);
        if (isTable(lines, 0))
            return table(lines);
        return element("p", ...inline(source));
    }

    function blocksOf(text, depth) {
        return split(text).map((source) => block(source, depth));
    }

    /* Shows a text in an element. Blocks that are the same as the last time stay, with what is selected in them. */
    function show(text, place) {
        const sources = split(text);
        const shown = place.sources ?? [];
        let n = 0;
        while (n < sources.length && n < shown.length && sources[n] === shown[n])
            n++;
        while (place.childNodes.length > n)
            place.lastChild.remove();
        place.append(...sources.slice(n).map((source) => block(source)));
        place.sources = sources;
    }

    return { show, split, inline };
})();
