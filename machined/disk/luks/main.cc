// The program that handles encrypted volumes for the brain
// (machined/disk/encryption/luks-client.h).
#include "common/memory/process-memory.h"
#include "machined/confined/parser-client/confined-process.h"
#include "machined/disk/luks/luks-request.h"

int main(int, char**) {
  talos::refuseCoreDumps();
  return talos::luks::serve(talos::machined::kParserRequestFd);
}
