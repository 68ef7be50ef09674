// The form for the operator's token. While the relay refuses requests, only this form is shown.

import { forgetToken, hasToken, setToken } from "./api.js";
import { announce, find, setExact } from "./kit/dom.js";

export class Login {
    /** `onToken()` is called when there is a token to try. */
    constructor(onToken) {
        find("login-form").addEventListener("submit", (event) => {
            event.preventDefault();
            try {
                setToken(find("token").value);
            } catch (error) {
                explain(error.message);
                return;
            }
            explain("");
            onToken();
        });
        find("forget").addEventListener("click", () => {
            forgetToken();
            // A reload removes everything that was read with the token.
            location.reload();
        });
        find("forget").hidden = !hasToken();
    }

    /** Asks for another token, because the relay refused the present one or there was none. */
    ask(reason) {
        forgetToken();
        const wasHidden = find("login").hidden;
        show(true);
        explain(reason);
        if (wasHidden || reason) find("token").focus();
    }

    /** Shows the rest of the page, because a request has succeeded. */
    finish() {
        const wasHidden = find("login").hidden;
        show(false);
        if (wasHidden) return;
        find("token").value = "";
        explain("");
        find("panel").focus({ preventScroll: true });
    }
}

function show(isAsking) {
    find("login").hidden = !isAsking;
    find("main").hidden = isAsking;
    find("forget").hidden = !hasToken();
}

function explain(text) {
    setExact(find("login-note"), text);
    announce(text, true);
}
