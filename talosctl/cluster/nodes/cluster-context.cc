#include "talosctl/cluster/nodes/cluster-context.h"

#include "common/base/file.h"

namespace talos::cluster {

kj::Maybe<Talosconfig::Rename> addContext(const StateDirectory& state, kj::StringPtr path) {
  auto mine = Talosconfig::load(path);
  auto renames = mine.merge(Talosconfig::load(state.file("talosconfig")));
  writeFileAtomically(state.file("context"), mine.currentName(), 0600);
  mine.save(path);
  if (renames.size() == 0) return nullptr;
  return kj::mv(renames[0]);  // of one context
}

void removeContext(const StateDirectory& state, kj::StringPtr path) {
  KJ_IF_MAYBE (name, tryReadFile(state.file("context"))) {
    auto own = Talosconfig::load(state.file("talosconfig"));
    auto mine = Talosconfig::load(path);
    KJ_IF_MAYBE (context, mine.contexts().find(*name)) {
      if (context->ca != own.resolve().ca) return;
      mine.remove(*name);
      mine.save(path);
    }
  }
}

}  // namespace talos::cluster
