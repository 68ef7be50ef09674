import Dispatch
import PushQueue
import ServiceLifecycle
import UnixSignals

/// Reads the settings again when a file has changed, and at each SIGHUP.
struct SettingsWatch: Service {
    let reload: SettingsReload
    /// The time between two looks at the files. A change applies after two of them.
    var interval = Duration.seconds(2)

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
        var changes = FileChanges(await self.contents())
        while (try? await Task.sleep(for: self.interval)) != nil {
            guard changes.observe(await self.contents()) else { continue }
            _ = try? await self.reload.reload("a file has changed")
        }
    }

    private func contents() async -> FileChanges.Contents {
        let files = await self.reload.files
        return await DispatchQueue.global().perform { FileChanges.contents(of: files) }
    }
}
