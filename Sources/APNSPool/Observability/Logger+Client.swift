import Logging
import SupervisedPool

// The lines of this file: one per change of state, none per push. They never contain a device token, a provider token
// or a key.

extension Logger {
    func log(_ event: SupervisorEvent) {
        switch event {
        case .childStarted(let id, let generation):
            self.debug("started", metadata: ["child": "\(id)", "generation": "\(generation)"])
        case .childFailed(let failure):
            self.error("a child crashed; this is a bug in the library", metadata: ["failure": "\(failure)"])
        case .childEnded(let id, let generation):
            self.debug("ended", metadata: ["child": "\(id)", "generation": "\(generation)"])
        case .restarting(let id):
            self.warning("restarting", metadata: ["child": "\(id)"])
        case .childStopped(let id, let generation, let error):
            self.debug(
                "stopped",
                metadata: [
                    "child": "\(id)", "generation": "\(generation)", "error": "\(error.map { "\($0)" } ?? "none")",
                ]
            )
        case .childDeaf(let id, let generation):
            self.warning("a child does not end", metadata: ["child": "\(id)", "generation": "\(generation)"])
        case .escalating(let error):
            self.error("a supervisor gives up", metadata: ["error": "\(error)"])
        }
    }

    func log(_ event: PoolEvent) {
        switch event {
        case .registered(let id):
            self.debug("worker registered", metadata: ["connection": "\(id)"])
        case .askedToConnect(let id, let reason):
            self.debug("asked to connect", metadata: ["connection": "\(id)", "reason": "\(reason)"])
        case .askedToDisconnect(let id, let reason):
            self.debug("asked to disconnect", metadata: ["connection": "\(id)", "reason": "\(reason)"])
        case .reported(let id, let report):
            self.log(report, from: id)
        case .unavailable(_, let fault):
            self.error(
                "no connection to APNs for a while: pushes fail or wait, as configured, until one is ready",
                metadata: ["fault": "\(fault.map { "\($0)" } ?? "unknown")"]
            )
        case .available:
            self.notice("APNs can be reached again")
        case .configurationFault(let fault, _):
            self.error("no connection can be made as configured", metadata: ["fault": "\(fault)"])
        case .invariantBroken(let what):
            self.critical(
                "more streams were returned to the pool than were leased; this is a bug in the library",
                metadata: ["what": "\(what)"]
            )
        }
    }

    /// Signing of provider tokens has begun to fail or to succeed again.
    func log(_ report: SigningReport, signedWith credential: String) {
        guard let error = report.failure else {
            self.notice("provider tokens are signed again", metadata: ["credential": "\(credential)"])
            return
        }
        self.error(
            "no provider token can be signed; one that is younger than \(TokenPolicy.usableMinutes) minutes stays in use",
            metadata: ["credential": "\(credential)", "error": "\(error)"]
        )
    }

    private func log(_ report: WorkerReport, from id: WorkerID) {
        switch report {
        case .connecting:
            self.debug("connecting", metadata: ["connection": "\(id)"])
        case .ready(let capacity):
            self.info("connected", metadata: ["connection": "\(id)", "streams": "\(capacity)"])
        case .capacity(let capacity):
            self.debug("streams allowed", metadata: ["connection": "\(id)", "streams": "\(capacity)"])
        case .latency:
            break
        case .draining:
            self.info("draining: a new connection takes over", metadata: ["connection": "\(id)"])
        case .lost(let fault):
            self.notice(
                "connection lost, connecting again",
                metadata: ["connection": "\(id)", "fault": "\(fault.map { "\($0)" } ?? "unknown")"]
            )
        case .backingOff(_, let fault):
            self.notice(
                "connection lost or refused, backing off",
                metadata: ["connection": "\(id)", "fault": "\(fault.map { "\($0)" } ?? "unknown")"]
            )
        case .idle:
            self.debug("idle", metadata: ["connection": "\(id)"])
        case .gone:
            self.debug("gone", metadata: ["connection": "\(id)"])
        }
    }
}
