import PushQueue

/// Random histories: the queue must do what a simple model does.
enum HistoryCases {
    static let all = [
        ConformanceCase("Random histories with time and crashes agree with the model", needs: [.manualClock]) { test in
            try await HistoryRun.runAll(test, withTime: true)
        },
        ConformanceCase("Random histories with neither time nor crashes agree with the model") { test in
            try await HistoryRun.runAll(test, withTime: false)
        },
    ]
}
