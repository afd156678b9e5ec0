// The program that writes to the system disk for the brain (machined/storage/installer.h).
#include "machined/install/serve.h"
#include "machined/storage/installer.h"

int main(int, char**) {
  return talos::install::serve(talos::machined::kInstallerRequestFd);
}
