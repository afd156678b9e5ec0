#include "talosctl/views/event-row.h"

#include <ctype.h>

#include "common/health/service-state.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

namespace {

kj::StringPtr actionName(rpc::Action action) {
  switch (action) {
    case rpc::Action::NOOP:
      return "NOOP";
    case rpc::Action::START:
      return "START";
    case rpc::Action::STOP:
      return "STOP";
  }
  return "?";
}

// Returns a state in upper case, such as "RUNNING".
kj::String upperState(rpc::ServiceState state) {
  auto name = kj::str(serviceStateName(state));
  for (char& c : name) c = static_cast<char>(toupper(c));
  return name;
}

}  // namespace

kj::Maybe<kj::Array<kj::String>> eventRow(kj::StringPtr node, rpc::Event::Reader event) {
  auto row = [&](kj::StringPtr type, kj::StringPtr source, kj::String message) {
    auto time = event.getTime() == 0 ? kj::String() : rfc3339(event.getTime());
    return kj::arr(kj::str(node), kj::str(event.getId()), kj::mv(time),
                   kj::str("talos/runtime/machine.", type), kj::str(source), kj::mv(message));
  };
  switch (event.which()) {
    case rpc::Event::SEQUENCE: {
      auto e = event.getSequence();
      auto error = e.getError();
      return row("SequenceEvent", e.getSequence(),
                 error.size() > 0 ? kj::str("error: ", error) : kj::str(actionName(e.getAction())));
    }
    case rpc::Event::PHASE:
      return row("PhaseEvent", event.getPhase().getName(),
                 kj::str(actionName(event.getPhase().getAction())));
    case rpc::Event::TASK:
      return row("TaskEvent", event.getTask().getName(),
                 kj::str(actionName(event.getTask().getAction())));
    case rpc::Event::SERVICE: {
      auto e = event.getService();
      return row("ServiceStateEvent", e.getService(),
                 kj::str(upperState(e.getState()), ": ", e.getMessage()));
    }
    case rpc::Event::NETWORK: {
      auto e = event.getNetwork();
      return row("NetworkEvent", e.getLink(), kj::str(e.getMessage()));
    }
    case rpc::Event::CONFIG:
      return row("ConfigEvent", "machineconfig", kj::str(event.getConfig().getMessage()));
    case rpc::Event::UPGRADE:
      return row("UpgradeEvent", "upgrade", kj::str(event.getUpgrade().getMessage()));
    case rpc::Event::RESTART:
      return nullptr;
  }
  return nullptr;  // kind of a newer node
}

}  // namespace talos::talosctl
