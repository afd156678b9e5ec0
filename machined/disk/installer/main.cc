// The program that writes to the system disk for the brain
// (machined/disk/volumes/installer-client.h).
#include "machined/disk/installer/installer-request.h"
#include "machined/disk/volumes/installer-client.h"

int main(int, char**) {
  return talos::install::serve(talos::machined::kInstallerRequestFd);
}
