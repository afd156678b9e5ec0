#include "talosctl/cluster/nodes/cluster-context.h"

#include <filesystem>

#include "common/base/file.h"
#include "talosctl/client/file-lock.h"

namespace talos::cluster {

kj::Promise<kj::Maybe<Talosconfig::Rename>> addContext(kj::Timer& timer,
                                                       const StateDirectory& state,
                                                       kj::StringPtr path) {
  kj::Maybe<Talosconfig::Rename> renamed;
  std::error_code none;
  auto own = state.file("talosconfig");
  if (std::filesystem::equivalent(path.cStr(), own.cStr(), none)) co_return nullptr;
  co_await talosctl::changeTalosconfig(timer, path, [&](Talosconfig& mine) {
    auto renames = mine.merge(Talosconfig::load(own));
    writeFileAtomically(state.file("context"), mine.currentName(), 0600);
    if (renames.size() > 0) renamed = kj::mv(renames[0]);  // there is a single context
    return true;
  });
  co_return kj::mv(renamed);
}

kj::Promise<void> removeContext(kj::Timer& timer, const StateDirectory& state, kj::StringPtr path) {
  KJ_IF_MAYBE (name, tryReadFile(state.file("context"))) {
    auto own = Talosconfig::load(state.file("talosconfig"));
    co_await talosctl::changeTalosconfig(timer, path, [&](Talosconfig& mine) {
      KJ_IF_MAYBE (context, mine.contexts().find(*name)) {
        if (context->ca != own.resolve().ca) return false;
        mine.remove(*name);
        return true;
      }
      return false;
    });
  }
}

}  // namespace talos::cluster
