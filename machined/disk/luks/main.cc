// The program that handles encrypted volumes for the brain (machined/disk/encryption/luks.h).
#include "common/memory/process-memory.h"
#include "machined/confined/client/confined-child.h"
#include "machined/disk/luks/serve.h"

int main(int, char**) {
  talos::refuseCoreDumps();
  return talos::luks::serve(talos::machined::kParserRequestFd);
}
