#include "machined/kubernetes/seccomp-profiles.h"

#include "common/base/file.h"
#include "common/base/folder.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kMostProfile = 4u << 20;

struct Profile {
  kj::String name, json;
};

bool isWritten(kj::StringPtr path, kj::StringPtr content) {
  bool same = false;
  // A file that is too large is another one.
  kj::runCatchingExceptions([&] {
    KJ_IF_MAYBE (text, tryReadFile(path, kMostProfile)) same = *text == content;
  });
  return same;
}

void writeProfiles(kj::StringPtr folder, kj::ArrayPtr<const Profile> profiles) {
  makeDirectories(folder, 0700);
  bool changed = false;
  for (auto& name : namesIn(folder)) {
    bool wanted = false;
    for (auto& profile : profiles) wanted = wanted || profile.name == name;
    if (wanted) continue;
    removeTree(kj::str(folder, "/", name));
    changed = true;
  }
  for (auto& profile : profiles) {
    auto path = kj::str(folder, "/", profile.name);
    if (!isWritten(path, profile.json)) writeFileAtomically(path, profile.json, 0600);
  }
  if (changed) syncFolder(folder);
}

}  // namespace

kj::Array<Controller::Input> SeccompProfilesController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId),
                 input<rpc::ServiceSpec>("kubelet"_kj));
}

kj::Promise<void> SeccompProfilesController::reconcile(Store& store) {
  if (store.tryGet<rpc::ServiceSpec>("kubelet"_kj) == nullptr) return kj::READY_NOW;
  KJ_IF_MAYBE (config, deps.readConfig(store)) {
    kj::Vector<Profile> profiles;
    for (auto profile : config->getMachine().getSeccompProfiles()) {
      if (profile.getJson().size() == 0) continue;
      profiles.add(Profile{kj::str(profile.getName()), kj::str(profile.getJson())});
    }
    return deps.blocking([folder = kj::str(deps.folder), profiles = kj::mv(profiles)]() {
      writeProfiles(folder, profiles);
    });
  }
  return kj::READY_NOW;
}

}  // namespace talos::machined
