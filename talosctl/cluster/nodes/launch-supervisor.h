// Starts the supervisor of a cluster as a separate process that outlives this one.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/string.h>

namespace talos::cluster {

// Called with each step that the start of a cluster begins: "creating load balancer".
using StartSteps = kj::Function<void(kj::StringPtr step)>;

// Prefix of a line of the supervisor's report that announces a step.
constexpr kj::StringPtr kStartStep = "step: "_kj;

// Reads a supervisor's report of its start: a line for each step, then "ready" or "error: <error>".
// Resolves when the cluster is ready. Rejects with the error, which may have several lines, or with
// an error that names `log` if the report ends without a result.
kj::Promise<void> followStart(kj::AsyncInputStream& report, StartSteps steps, kj::StringPtr log);

// Runs this program again as `cluster-run <state folder>`, detached from the terminal, with its
// output in supervisor.log; resolves when it is ready. Rejects with its error, or if it is not
// ready in time: the kernel creates links under one lock for all network namespaces, which other
// processes may hold for long.
kj::Promise<void> launchSupervisor(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                   kj::StringPtr stateDirectory, StartSteps steps,
                                   kj::Duration deadline = 60 * kj::SECONDS);

}  // namespace talos::cluster
