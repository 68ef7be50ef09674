extension SupervisorStateMachine {
    /// All children in their order.
    var statuses: [ChildStatus] {
        self.children.inOrder.map { child in
            let state: ChildStatus.State =
                switch child.state {
                case .idle: child.isRestarting ? .restarting : .stopped
                case .starting: .starting
                case .running: .running
                case .exited: .restarting
                case .stopping, .cancelled: .stopping
                }
            return ChildStatus(
                id: child.spec.id,
                state: state,
                generation: child.generation,
                restart: child.spec.restart,
                kind: child.spec.kind,
                isDeaf: child.isDeaf
            )
        }
    }

    var counts: ChildCounts {
        let all = self.children.inOrder
        return ChildCounts(
            specified: all.count,
            active: all.count { $0.isAlive },
            supervisors: all.count { $0.spec.kind == .supervisor },
            workers: all.count { $0.spec.kind == .worker }
        )
    }

    /// Creates an error of this supervisor. Only `intensityExceeded` and `startFailed` include the recent failures.
    func error(_ code: SupervisorError.Code, child: ChildSpec.ID? = nil) -> SupervisorError {
        let hasHistory = code == .intensityExceeded || code == .startFailed
        return SupervisorError(
            code: code,
            supervisor: self.name,
            child: child,
            failures: hasHistory ? Array(self.failures) : []
        )
    }
}
