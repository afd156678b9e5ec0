#include "machined/config/debug-console.h"

namespace talos::machined {

void DebugConsole::look() {
  wanted = false;
  KJ_IF_MAYBE (document, reader.document(store)) {
    wanted = document->get().getDebug();
  }
}

void DebugConsole::follow(kj::StringPtr self) {
  look();
  configChanged = store.onChange<rpc::MachineConfigSpec>([this]() { look(); });
  logs.tee([this, self = kj::str(self)](kj::StringPtr id, kj::ArrayPtr<const char> lines) {
    if (wanted && id != self) console.show(id, lines);
  });
}

}  // namespace talos::machined
