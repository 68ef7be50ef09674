// Errors and paths of an API whose errors are `{"error": {"code": …, "message": …}}`.

/** An error response of the API, or a failure to reach it (status 0). */
export class APIError extends Error {
    constructor(status, code, message) {
        super(message);
        this.status = status;
        this.code = code;
    }
}

/** The error of a response. `server` names the server in the message if the response has none. */
export async function failure(response, server) {
    let code = "";
    let message = `${server} responded with status ${response.status}.`;
    try {
        const { error } = await response.json();
        if (error?.message) {
            code = String(error.code ?? "");
            message = String(error.message);
        }
    } catch {
        // Not the API's error format: the status has to do.
    }
    return new APIError(response.status, code, message);
}

/** A path whose parts are encoded: `path("v1", "devices", id)`. */
export const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");
