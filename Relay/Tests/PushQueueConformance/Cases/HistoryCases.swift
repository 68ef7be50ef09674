import PushQueue

/// Random histories. The queue must do the same as a simple model.
enum HistoryCases {
    static let all = [
        ConformanceCase("Random histories with time and crashes agree with the model") { test in
            try await HistoryRun.runAll(test, withTime: true)
        },
        ConformanceCase("Random histories with neither time nor crashes agree with the model") { test in
            try await HistoryRun.runAll(test, withTime: false)
        },
    ]
}
