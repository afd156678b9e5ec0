#include "machined/system/user-modules.h"

#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/system/notes-file.h"
#include "rpc/effects.capnp.h"

namespace talos::machined {
namespace {

struct LoadedModule {
  kj::String parameters;  // of the config
  bool early = false;     // loaded by another program before the config was applied
};
using LoadedModules = kj::TreeMap<kj::String, LoadedModule>;

bool exists(kj::StringPtr path) {
  return access(path.cStr(), F_OK) == 0;
}

class ModuleLoader {
 public:
  ModuleLoader(const Modules& modules, kj::StringPtr sysModule, kj::StringPtr notes,
               kj::ArrayPtr<const WantedModule> wanted)
      : modules(modules), sysModule(sysModule), notes(notes), wanted(wanted), boot(!exists(notes)) {
    readNotes<rpc::LoadedModules>(notes, [&](auto found) {
      for (auto m : found.getModules()) {
        loaded.upsert(kj::str(m.getName()), LoadedModule{kj::str(m.getParameters()), m.getEarly()});
      }
    });
  }

  kj::Vector<kj::String> run() {
    if (boot) save();  // a later call does not count as the boot's, even if the boot loaded nothing
    for (auto& each : wanted) {
      auto failed = kj::runCatchingExceptions([&]() { load(each); });
      KJ_IF_MAYBE (e, failed) problem("cannot load", each, kj::str(": ", messageOf(*e)));
    }
    return kj::mv(problems);
  }

 private:
  const Modules& modules;
  kj::StringPtr sysModule, notes;
  kj::ArrayPtr<const WantedModule> wanted;
  bool boot;
  LoadedModules loaded;
  kj::Vector<kj::String> problems;

  void problem(kj::StringPtr verb, const WantedModule& module, kj::String text) {
    problems.add(kj::str("machine.kernel.modules: ", verb, verb.size() > 0 ? " " : "", "\"",
                         module.name, "\"", text));
  }

  void save() {
    writeNotes<rpc::LoadedModules>(notes, [&](auto out) {
      auto list = out.initModules(static_cast<unsigned>(loaded.size()));
      unsigned i = 0;
      for (auto& entry : loaded) {
        auto module = list[i++];
        module.setName(entry.key);
        module.setParameters(entry.value.parameters);
        module.setEarly(entry.value.early);
      }
    });
  }
  void note(kj::StringPtr name, kj::StringPtr parameters, bool early) {
    loaded.upsert(kj::str(name), LoadedModule{kj::str(parameters), early},
                  [](LoadedModule& old, LoadedModule&& fresh) { old = kj::mv(fresh); });
    save();
  }
  void forget(kj::StringPtr name) {
    loaded.erase(name);
    save();
  }

  kj::StringPtr parametersOf(kj::StringPtr plainName) const {
    for (auto& each : wanted) {
      if (plainModuleName(each.name) == plainName) return each.parameters;
    }
    return "";
  }

  void load(const WantedModule& module) {
    auto maybeFound = modules.find(module.name);
    auto& found = KJ_UNWRAP_OR(maybeFound, {
      problem("cannot load", module, kj::str(": the image has no such module"));
      return;
    });
    if (found.builtin) {
      if (module.parameters.size() == 0) return;
      problem("", module,
              kj::str(" is a part of the kernel, so its parameters cannot be set here; use "
                      "machine.install.extraKernelArgs: ",
                      plainModuleName(module.name), ".NAME=VALUE"));
      return;
    }
    for (auto& file : found.files) {
      auto name = plainModuleName(file);
      bool itself = &file == &found.files.back();
      if (!insert(file, name, itself ? module.parameters.asPtr() : parametersOf(name)) && itself) {
        compare(name, module);
      }
    }
  }

  // Returns true while a driver's start has not ended; sysfs shows its module already.
  bool isStarting(kj::StringPtr folder) const {
    KJ_IF_MAYBE (state, tryReadFile(kj::str(folder, "/initstate"))) return *state == "coming\n";
    return false;
  }

  // Returns false if the module was already loaded. A call that ends at its deadline may load the
  // module later, with its parameters: then the note stays.
  bool insert(kj::StringPtr file, kj::StringPtr name, kj::StringPtr parameters) {
    auto folder = kj::str(sysModule, "/", name);
    bool shown = exists(folder);
    if (shown && !isStarting(folder)) return false;
    bool ours = shown && loaded.find(name) != nullptr;  // an earlier call loads it
    if (!ours) note(name, parameters, false);
    bool inserted = false;
    auto failure = kj::runCatchingExceptions([&] { inserted = modules.insert(file, parameters); });
    KJ_IF_MAYBE (e, failure) {
      bool late = kindOf(*e) == ErrorKind::kDeadlineExceeded;
      if (!late || (shown && !ours)) forget(name);
      kj::throwFatalException(kj::mv(*e));
    }
    if (!inserted && !ours) forget(name);  // another program was faster
    return inserted;
  }

  // Reports parameters that a module lacks because it was loaded without them.
  void compare(kj::StringPtr name, const WantedModule& module) {
    bool early = false, same = module.parameters.size() == 0;
    KJ_IF_MAYBE (noted, loaded.find(name)) {
      early = noted->early;
      if (!early) same = noted->parameters == module.parameters;
    } else if (boot) {
      early = true;
      note(name, module.parameters, true);
    }
    if (same) return;
    problem("", module,
            early ? kj::str(" was loaded before the config was applied, so its parameters cannot "
                            "be set")
                  : kj::str(" is loaded already, so its parameters do not change; reboot to apply "
                            "them"));
  }
};

}  // namespace

kj::Vector<WantedModule> wantedModules(config::Machine::Reader machine) {
  kj::Vector<WantedModule> result;
  for (auto module : machine.getKernel().getModules()) {
    result.add(WantedModule{kj::str(module.getName()), kj::strArray(module.getParameters(), " ")});
  }
  return result;
}

SettingProblems UserModules::apply(kj::ArrayPtr<const WantedModule> wanted) {
  std::lock_guard lock(mutex);
  kj::Vector<kj::String> problems;
  if (scope == KernelScope::kAll) {
    auto modules = wanted.size() > 0 ? open() : Modules(nullptr, ModuleIndex("", "", ""));
    problems = ModuleLoader(modules, sysModule, notes, wanted).run();
  } else if (wanted.size() > 0) {
    problems.add(
        kj::str("machine.kernel.modules: not loaded, because this node is a container and the "
                "kernel is its host's"));
  }
  return last.report(kj::mv(problems), false);
}

}  // namespace talos::machined
