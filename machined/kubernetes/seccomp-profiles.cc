#include "machined/kubernetes/seccomp-profiles.h"

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/text/texts.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kMostProfile = 4u << 20, kMostNote = 1u << 20;
constexpr kj::StringPtr kNoteSuffix = ".written"_kj;  // beside the folder

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

// Returns false for a line of a damaged note that leads out of the folder.
bool isFileName(kj::StringPtr name) {
  return name.size() > 0 && name != "." && name != ".." && name.findFirst('/') == nullptr;
}

// Writes the profiles, and removes files of earlier runs that the config has no longer. The note
// beside the folder has the names of the files that it has written, one a line.
class Writer {
 public:
  // `named`: paths of machine.files, which stay.
  Writer(kj::StringPtr folder, kj::ArrayPtr<const kj::String> named)
      : folder(folder), note(kj::str(folder, kNoteSuffix)), named(named) {
    KJ_IF_MAYBE (text, tryReadFile(note, kMostNote)) {
      for (auto& name : linesOf(*text)) {
        if (isFileName(name)) noted.add(kj::mv(name));
      }
    }
  }

  void run(kj::ArrayPtr<const Profile> profiles) {
    auto wanted = KJ_MAP(profile, profiles) {
      return kj::str(profile.name);
    };
    kj::Vector<kj::String> obsolete, all;
    for (auto& name : wanted) all.add(kj::str(name));
    for (auto& name : noted) {
      if (contains(wanted, name)) continue;
      all.add(kj::str(name));
      if (!contains(named, pathOf(name))) obsolete.add(kj::str(name));
    }
    makeDirectories(folder, 0700);
    addUnfinished(obsolete);
    // The note precedes the files: after a crash it may name one that was not written, but it lacks
    // none.
    keep(all);
    remove(obsolete);
    for (auto& profile : profiles) {
      auto path = pathOf(profile.name);
      if (!isWritten(path, profile.json)) writeFileAtomically(path, profile.json, 0600);
    }
    keep(wanted);
  }

 private:
  kj::StringPtr folder;
  kj::String note;
  kj::ArrayPtr<const kj::String> named;
  kj::Vector<kj::String> noted;

  kj::String pathOf(kj::StringPtr name) const { return kj::str(folder, "/", name); }

  void keep(kj::ArrayPtr<const kj::String> names) {
    auto text = kj::strArray(KJ_MAP(name, names) { return kj::str(name, "\n"); }, "");
    if (text.size() == 0 && noted.empty()) return;
    if (!isWritten(note, text)) writeFileAtomically(note, text, 0600);
  }

  // Adds the files that a power cut left while a profile was written.
  void addUnfinished(kj::Vector<kj::String>& names) const {
    for (auto& there : namesIn(folder)) {
      for (auto& name : noted) {
        if (there.startsWith(kj::str(name, ".unfinished-"))) addOnce(names, kj::str(there));
      }
    }
  }

  void remove(kj::ArrayPtr<const kj::String> names) {
    for (auto& name : names) removeTree(pathOf(name));
    if (names.size() > 0) syncFolder(folder);
  }
};

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
    auto named = KJ_MAP(file, config->getMachine().getFiles()) {
      return kj::str(file.getPath());
    };
    return deps.blocking([folder = kj::str(deps.folder), profiles = kj::mv(profiles),
                          named = kj::mv(named)]() { Writer(folder, named).run(profiles); });
  }
  return kj::READY_NOW;
}

}  // namespace talos::machined
