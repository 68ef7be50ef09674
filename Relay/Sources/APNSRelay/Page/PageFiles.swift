/// The files of the relay's page for operators. They are static: the page needs no build step and no other origin.
enum PageFiles {
    static let all: [PageFile] = [
        .html("/", PageHTML.text),
        .css("/page.css", PageStyle.text),
        .css("/panel.css", PageStylePanel.text),
        .script("/main.js", PageScriptMain.text),
        .script("/api.js", PageScriptAPI.text),
        .script("/dom.js", PageScriptDOM.text),
        .script("/format.js", PageScriptFormat.text),
        .script("/rows.js", PageScriptRows.text),
        .script("/actions.js", PageScriptActions.text),
        .script("/samples.js", PageScriptSamples.text),
        .script("/charts.js", PageScriptCharts.text),
        .script("/figures.js", PageScriptFigures.text),
        .script("/routes.js", PageScriptRoutes.text),
        .script("/relays.js", PageScriptRelays.text),
        .script("/feed.js", PageScriptFeed.text),
        .script("/history.js", PageScriptHistory.text),
        .script("/outcomes.js", PageScriptOutcomes.text),
        .script("/parked.js", PageScriptParked.text),
        .script("/webhooks.js", PageScriptWebhooks.text),
        .script("/push.js", PageScriptPush.text),
        .script("/login.js", PageScriptLogin.text),
    ]
}

extension PageFile {
    fileprivate static func html(_ path: String, _ text: String) -> PageFile {
        PageFile(path: path, contentType: "text/html; charset=utf-8", body: text)
    }

    fileprivate static func css(_ path: String, _ text: String) -> PageFile {
        PageFile(path: path, contentType: "text/css; charset=utf-8", body: text)
    }

    fileprivate static func script(_ path: String, _ text: String) -> PageFile {
        PageFile(path: path, contentType: "text/javascript; charset=utf-8", body: text)
    }
}
