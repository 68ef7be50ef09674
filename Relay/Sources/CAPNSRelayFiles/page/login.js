// The form for the operator's token. While the relay refuses requests, only this form is shown.

import { forgetToken, hasToken, setToken } from "./api.js";
import { announce, find, setExact } from "./kit/dom.js";

export class Login {
    #onToken;

    /** `onToken()` is called when there is a token to try. */
    constructor(onToken) {
        this.#onToken = onToken;
        find("login-form").addEventListener("submit", (event) => {
            event.preventDefault();
            this.#submit();
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
        find("forget").hidden = true;
        const wasHidden = find("login").hidden;
        find("login").hidden = false;
        find("main").hidden = true;
        this.#explain(reason);
        if (wasHidden || reason) find("token").focus();
    }

    /** Shows the rest of the page, because a request has succeeded. */
    finish() {
        if (!find("login").hidden) {
            find("login").hidden = true;
            find("main").hidden = false;
            find("token").value = "";
            this.#explain("");
            find("panel").focus({ preventScroll: true });
        }
        find("forget").hidden = !hasToken();
    }

    #submit() {
        try {
            setToken(find("token").value);
        } catch (error) {
            this.#explain(error.message);
            return;
        }
        this.#explain("");
        this.#onToken();
    }

    #explain(text) {
        setExact(find("login-note"), text);
        announce(text, true);
    }
}
