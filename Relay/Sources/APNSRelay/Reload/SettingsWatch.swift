import Dispatch
import PushQueue
import ServiceLifecycle
import UnixSignals

/// Reads the settings again when a file has changed, and at each SIGHUP.
struct SettingsWatch: Service {
    let reload: SettingsReload
    /// The time between two looks at the files. A change applies after two of them.
    private static let interval = Duration.seconds(2)
    /// The number of looks after which a failed reading is repeated: a file may have been missing, or the database away.
    private static let looksUntilRepetition = 5

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { tasks in
                tasks.addTask { await self.followSignals() }
                tasks.addTask { await self.followFiles() }
            }
        }
        // A service that ends before its turn counts as failed in a service group.
        try? await gracefulShutdown()
    }

    private func followSignals() async {
        for await _ in await UnixSignalsSequence(trapping: .sighup) {
            // The error is in the log.
            _ = try? await self.reload.reload("SIGHUP")
        }
    }

    private func followFiles() async {
        var changes = FileChanges(await self.reload.files)
        var looks = 0
        while (try? await Task.sleep(for: Self.interval)) != nil {
            looks += 1
            let files = await self.reload.files.map(\.key)
            let contents = await DispatchQueue.global().perform { FileChanges.contents(of: files) }
            if changes.observe(contents) {
                _ = try? await self.reload.reload("a file has changed")
            } else if looks % Self.looksUntilRepetition == 0, await self.reload.hasFailed {
                _ = try? await self.reload.reload("the last reading had an error")
            }
        }
    }
}
