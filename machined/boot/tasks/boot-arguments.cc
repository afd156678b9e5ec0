#include "machined/boot/tasks/boot-arguments.h"

#include "machined/disk/installer/boot-files.h"

namespace talos::machined {

kj::String bootArgumentsOf(const KernelArguments& running, config::Install::Reader install) {
  auto list = install.getExtraKernelArgs();
  kj::Vector<kj::StringPtr> extra;
  for (auto argument : list) extra.add(argument);
  return install::bootArguments({.platform = running.first("talos.platform").orDefault("metal"),
                                 .config = running.first("talos.config").orDefault(""),
                                 .extra = extra});
}

}  // namespace talos::machined
