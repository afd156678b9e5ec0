// The program that writes to the system disk for the brain (machined/disk/volumes/installer.h).
#include "machined/disk/installer/serve.h"
#include "machined/disk/volumes/installer.h"

int main(int, char**) {
  return talos::install::serve(talos::machined::kInstallerRequestFd);
}
