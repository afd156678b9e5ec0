#include "machined/disk/installer/file-systems.h"

#include "machined/disk/installer/partition-layout.h"
#include "machined/disk/installer/run-mkfs.h"

namespace talos::install {
void makeXfs(kj::StringPtr node, kj::StringPtr label) {
  // STATE is smaller than the minimum of mkfs.xfs, so --unsupported is needed.
  kj::StringPtr command[] = {kMkfsXfs, "-q"_kj, "-f"_kj, "--unsupported"_kj, "-n"_kj, "ftype=1"_kj,
                             "-L"_kj,  label,   node};
  runTool(command);
}
// The usual log of 64 MiB would leave too little space for two systems with the drivers of all
// machines.
void makeBootXfs(kj::StringPtr node, kj::ArrayPtr<const kj::StringPtr> more) {
  const kj::StringPtr options[] = {kMkfsXfs, "-q"_kj,
                                   "-f"_kj,  "--unsupported"_kj,
                                   "-m"_kj,  "bigtime=0,inobtcount=0,rmapbt=0,reflink=0"_kj,
                                   "-i"_kj,  "nrext64=0,exchange=0"_kj,
                                   "-n"_kj,  "ftype=1,parent=0"_kj,
                                   "-l"_kj,  "size=8m"_kj,
                                   "-L"_kj,  kBoot};
  kj::Vector<kj::StringPtr> command;
  for (auto option : options) command.add(option);
  command.addAll(more);
  command.add(node);
  runTool(command);
}
void makeFat(kj::StringPtr node, kj::ArrayPtr<const kj::StringPtr> more,
             kj::ArrayPtr<const kj::StringPtr> environment) {
  const kj::StringPtr options[] = {kMkfsFat, "-F"_kj, "32"_kj, "-n"_kj, kEfi};
  kj::Vector<kj::StringPtr> command;
  for (auto option : options) command.add(option);
  command.addAll(more);
  command.add(node);
  runTool(command, environment);
}

}  // namespace talos::install
