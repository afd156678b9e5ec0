@0xb1c7d0e5a4f29a36;
# Records that machined keeps of files, sysctls and modules that the machine config changes, so that it can change them
# again or undo the change. Read and written by machined only.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct AppendedBlocks {
  # /var/system/appended: the blocks that machine.files has appended to files below /var, or was about to append.
  files @0 :List(File);
  struct File {
    path @0 :Text;
    blocks @1 :List(Data);  # each with the line break in front; at most one of them is in the file
  }
}

struct SysctlOriginals {
  # /system/run/sysctls: the kernel's values before machine.sysctls changed them.
  settings @0 :List(Setting);
  struct Setting {
    path @0 :Text;          # below /proc/sys
    readable @1 :Bool;      # false: the kernel does not show its value
    value @2 :Text;
  }
}

struct LoadedModules {
  # /system/run/modules: modules that machine.kernel.modules has loaded since the machine started, or was about to load.
  modules @0 :List(Module);
  struct Module {
    name @0 :Text;          # as /sys/module has it
    parameters @1 :Text;    # of the config
    early @2 :Bool;         # something else had loaded it before, so the config's parameters were never set
  }
}
