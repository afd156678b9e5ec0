// The program that the kernel starts to load a module (kernel.modprobe): a link type that networkd
// makes, a file system that is mounted, a cipher of dm-crypt. So no daemon needs the right to load
// modules.
//   modprobe [-q] [--] NAME-OR-ALIAS
#include "common/base/error.h"
#include "common/base/log.h"
#include "machined/process1/modprobe/kernel-modules.h"

int main(int argc, char** argv) {
  using namespace talos;
  kj::StringPtr wanted;
  for (int i = 1; i < argc; ++i) {
    kj::StringPtr argument = argv[i];
    if (!argument.startsWith("-")) wanted = argument;
  }
  if (wanted == nullptr) {
    log::error("name of the module is missing; usage: modprobe NAME-OR-ALIAS");
    return 2;
  }
  try {
    return machined::Modules::ofRunningKernel().load(wanted) ? 0 : 1;
  } catch (const kj::Exception& e) {
    log::error("cannot load the module", {{"module", wanted}, {"error", messageOf(e)}});
    return 1;
  }
}
