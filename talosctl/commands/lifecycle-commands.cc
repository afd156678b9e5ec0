// reboot, shutdown
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/take-down.h"

namespace talos::talosctl {

namespace {

using RebootResults = rpc::Machine::RebootResults;
using ShutdownResults = rpc::Machine::ShutdownResults;

kj::Promise<int> runReboot(Invocation& call) {
  return takeDownAll<RebootResults>(call, Outcome::Kind::kReboot, [](rpc::Machine::Client machine) {
    return machine.rebootRequest().send();
  });
}

kj::Promise<int> runShutdown(Invocation& call) {
  return takeDownAll<ShutdownResults>(
      call, Outcome::Kind::kShutdown,
      [](rpc::Machine::Client machine) { return machine.shutdownRequest().send(); });
}

void declare(Command& command, Run run, kj::StringPtr details) {
  addWaitFlag(command, true);
  addStreamOutputFlag(command);
  command.timeout = kOutcome;
  command.details = details;
  command.run = run;
}

}  // namespace

void addLifecycleCommands(Command& root) {
  auto& reboot = root.add("reboot", "Reboot nodes");
  declare(reboot, runReboot,
          "Waits until each node and its services are up again, at most --timeout, unless "
          "--wait=false is given.");
  addRebootMode(reboot, "mode");
  auto& shutdown = root.add("shutdown", "Shut nodes down");
  declare(shutdown, runShutdown,
          "Waits until each node is off, at most --timeout, unless --wait=false is given.");
  shutdown.flag(
      {.name = "force", .help = "do not drain the node first, which a shutdown here never does"});
}

}  // namespace talos::talosctl
