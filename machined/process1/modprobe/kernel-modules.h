// Kernel modules: finds the files for a name or an alias, and loads them.
//
// The index is pure: it is read from the text of depmod's files. Loading is idempotent (an already
// loaded module is fine), so it may be repeated after a crash at any line. Calls block for as long
// as the kernel takes to link a module (milliseconds; in emulation tens of them): not for the event
// loop.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

class ModuleIndex {
 public:
  // Reads the texts of modules.dep, modules.alias and modules.builtin. Skips invalid lines.
  ModuleIndex(kj::StringPtr dependencies, kj::StringPtr aliases, kj::StringPtr builtin);

  struct Found {
    bool builtin = false;             // part of the kernel: nothing to load
    kj::Vector<kj::StringPtr> files;  // below the index's directory, each after its dependencies
  };
  // Finds by module name ('-' and '_' are the same) or, with shell patterns, by alias; nullptr if
  // unknown. `below`: only modules whose own file is below one of these folders
  // ("kernel/drivers/net/"); empty: all.
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

// Returns "foo_bar" for "kernel/net/foo-bar.ko".
kj::String plainModuleName(kj::StringPtr fileOrName);

// Returns the default parameters of a module, so that it makes no links by itself: bonding would
// make bond0 and dummy dummy0. "" for most.
kj::StringPtr moduleParameters(kj::StringPtr plainName);

// Returns the parameters for a module on the kernel's command line: "usb_storage.quirks=…". The
// kernel uses those of built-in code, and leaves those of modules to the program that loads them
// (Documentation/admin-guide/kernel-parameters.rst).
kj::String parametersIn(kj::StringPtr commandLine, kj::StringPtr plainName);

class Modules {
 public:
  // Loads a file below the directory; returns 0 or an errno.
  using Insert =
      kj::ConstFunction<int(kj::StringPtr directory, kj::StringPtr file, kj::StringPtr parameters)>;
  // Loads by finit_module(2) of this process, which the brain may not call
  // (machined/process1/helpers/kernel-helpers.h).
  static int insertIntoKernel(kj::StringPtr directory, kj::StringPtr file,
                              kj::StringPtr parameters);
  // Reads the index of the running kernel below `root`, and its command line. A folder without an
  // index yields an empty index: a kernel with everything built in.
  static Modules ofRunningKernel(kj::StringPtr root = "/lib/modules",
                                 Insert call = insertIntoKernel);
  Modules(kj::String directory, ModuleIndex index, Insert call = insertIntoKernel,
          kj::String commandLine = nullptr)
      : directory(kj::mv(directory)),
        index(kj::mv(index)),
        call(kj::mv(call)),
        commandLine(kj::mv(commandLine)) {}

  // Loads a module and its dependencies. Returns false if no module or alias has this name. Throws
  // naming the file when the kernel refuses it.
  bool load(kj::StringPtr nameOrAlias) const;

  kj::Maybe<ModuleIndex::Found> find(kj::StringPtr nameOrAlias) const {
    return index.find(nameOrAlias);
  }
  // Loads one file of the index, without its dependencies, with its moduleParameters(), then those
  // of the command line, then `parameters`; for each parameter the kernel keeps the last value.
  // Returns false if it was already loaded. Throws as load() does.
  bool insert(kj::StringPtr file, kj::StringPtr parameters = "") const;

  // Loads the modules for the modaliases of all devices below `devices`. A module that the kernel
  // refuses is reported to `failed` and does not stop the others. Returns how many devices had a
  // module. `only`: like `below` of ModuleIndex::find(). For processors, loads only modules for
  // sensors and memory errors: a processor supports a dozen ciphers, and the kernel requests the
  // module of the cipher that is used.
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

// Opens the index with a function that loads its modules. Called from any thread.
using OpenModules = kj::ConstFunction<Modules()>;

}  // namespace talos::machined
