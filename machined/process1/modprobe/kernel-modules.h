// Kernel modules: which files belong to a name or an alias, and loading them.
//
// The index is pure: it is read from the text of depmod's files. Loading is idempotent (a module
// that is there already is fine), so it may be repeated after a crash at any line. Calls block for
// as long as the kernel takes to link a module (milliseconds; in emulation tens of them): not for
// the event loop.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

class ModuleIndex {
 public:
  // Texts of modules.dep, modules.alias and modules.builtin. Lines that are not understood are
  // skipped.
  ModuleIndex(kj::StringPtr dependencies, kj::StringPtr aliases, kj::StringPtr builtin);

  struct Found {
    bool builtin = false;             // of the kernel itself: nothing to load
    kj::Vector<kj::StringPtr> files;  // below the index's directory, each after what it needs
  };
  // By module name ('-' and '_' are the same) or, with shell patterns, by alias. None: unknown.
  // `below`: of several modules, those whose own file is below one of these folders
  // ("kernel/drivers/net/"); none given: all.
  kj::Maybe<Found> find(kj::StringPtr nameOrAlias,
                        kj::ArrayPtr<const kj::StringPtr> below = nullptr) const;
  size_t size() const { return modules.size(); }

 private:
  struct Module {
    kj::String file;
    kj::Vector<kj::String> needs;  // files, in the order of modules.dep: outermost last
  };
  struct Alias {
    kj::String pattern;
    size_t literal;  // bytes before its first wildcard
    kj::String module;
  };
  kj::TreeMap<kj::String, Module> modules;  // by plain name
  kj::TreeSet<kj::String> builtins;
  kj::Vector<Alias> aliases;

  bool add(kj::StringPtr name, Found& found, kj::ArrayPtr<const kj::StringPtr> below) const;
};

// "kernel/net/foo-bar.ko" -> "foo_bar".
kj::String plainModuleName(kj::StringPtr fileOrName);

// The parameters that a module is loaded with, so that it makes no links by itself: bonding would
// make bond0 and dummy dummy0. "" for most.
kj::StringPtr moduleParameters(kj::StringPtr plainName);

// Those that the kernel's command line gives a module: "usb_storage.quirks=…". The kernel reads
// them for what is built in, and leaves those of modules to the program that loads them
// (Documentation/admin-guide/kernel-parameters.rst).
kj::String parametersIn(kj::StringPtr commandLine, kj::StringPtr plainName);

class Modules {
 public:
  // Loads a file below the directory: 0 or an errno.
  using Insert =
      kj::ConstFunction<int(kj::StringPtr directory, kj::StringPtr file, kj::StringPtr parameters)>;
  // By finit_module(2) of this process, which the brain may not call
  // (machined/process1/helpers/kernel-helpers.h).
  static int insertIntoKernel(kj::StringPtr directory, kj::StringPtr file,
                              kj::StringPtr parameters);
  // Reads the index of the running kernel below `root`, and its command line. A folder without an
  // index makes an empty one: a kernel with everything built in.
  static Modules ofRunningKernel(kj::StringPtr root = "/lib/modules",
                                 Insert call = insertIntoKernel);
  Modules(kj::String directory, ModuleIndex index, Insert call = insertIntoKernel,
          kj::String commandLine = nullptr)
      : directory(kj::mv(directory)),
        index(kj::mv(index)),
        call(kj::mv(call)),
        commandLine(kj::mv(commandLine)) {}

  // Loads it and what it needs. False when no module or alias has this name. Throws naming the file
  // when the kernel refuses it.
  bool load(kj::StringPtr nameOrAlias) const;

  kj::Maybe<ModuleIndex::Found> find(kj::StringPtr nameOrAlias) const {
    return index.find(nameOrAlias);
  }
  // Loads one file of the index, without what it needs, with its moduleParameters(), then those of
  // the command line, then these; of each the kernel keeps the last value. False: it was there.
  // Throws as load() does.
  bool insert(kj::StringPtr file, kj::StringPtr parameters = "") const;

  // Loads what the devices that exist ask for by their modalias below `devices`. A module that the
  // kernel refuses is reported to `failed` and does not stop the others. Returns how many devices
  // had a module. `only`: as ModuleIndex::find() has it. Of what processors ask for, only sensors
  // and what counts errors of memory: a processor supports a dozen ciphers, and the kernel asks for
  // the module of the one that is used.
  unsigned coldplug(kj::Function<void(kj::StringPtr problem)> failed,
                    kj::ArrayPtr<const kj::StringPtr> only = nullptr,
                    kj::StringPtr devices = "/sys/devices") const;

 private:
  kj::String directory;
  ModuleIndex index;
  Insert call;
  kj::String commandLine;

  int tryInsert(kj::StringPtr file, kj::StringPtr parameters) const;
  void loadForProcessor(const ModuleIndex::Found& found,
                        kj::Function<void(kj::StringPtr)>& failed) const;
};

// Opens the index, with who loads its modules. Called from any thread.
using OpenModules = kj::ConstFunction<Modules()>;

}  // namespace talos::machined
