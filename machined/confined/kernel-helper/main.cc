// kernel-helper modules|raw-io: makes calls of the kernel for the brain, over descriptor 3.
#include <string.h>

#include "machined/confined/kernel-helper/kernel-helper.h"

int main(int argc, char** argv) {
  using namespace talos::helper;
  kj::StringPtr right = argc == 2 ? argv[1] : "";
  if (right != kModules && right != kRawIo) return 2;
  KernelHelper(right, modulesFolder()).serve(kRequestsFd);
  return 0;
}
