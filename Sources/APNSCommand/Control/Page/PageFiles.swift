/// The files of the simulator's page by their path. They are static: the page needs no build step and no other origin.
enum PageFiles {
    static let all: [String: PageFile] = [
        "/": .html(PageHTML.text),
        "/page.css": .css(PageStyle.text),
        "/panel.css": .css(PageStylePanel.text),
        "/main.js": .script(PageScriptMain.text),
        "/api.js": .script(PageScriptAPI.text),
        "/dom.js": .script(PageScriptDOM.text),
        "/store.js": .script(PageScriptStore.text),
        "/list.js": .script(PageScriptList.text),
        "/filters.js": .script(PageScriptFilters.text),
        "/detail.js": .script(PageScriptDetail.text),
        "/json.js": .script(PageScriptJSON.text),
        "/device.js": .script(PageScriptDevice.text),
        "/phone.js": .script(PageScriptPhone.text),
        "/activity.js": .script(PageScriptActivity.text),
        "/faults.js": .script(PageScriptFaults.text),
        "/charts.js": .script(PageScriptCharts.text),
    ]
}

/// A file of the page.
struct PageFile: Sendable {
    /// The value of `content-type`.
    var type: String
    var text: String

    static func html(_ text: String) -> PageFile { PageFile(type: "text/html; charset=utf-8", text: text) }
    static func css(_ text: String) -> PageFile { PageFile(type: "text/css; charset=utf-8", text: text) }
    static func script(_ text: String) -> PageFile { PageFile(type: "text/javascript; charset=utf-8", text: text) }
}
