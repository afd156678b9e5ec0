// The program that handles encrypted volumes for the brain (machined/encryption/luks.h).
#include "common/memory/process-memory.h"
#include "machined/foreign/confined-child.h"
#include "machined/luks/serve.h"

int main(int, char**) {
  talos::refuseCoreDumps();
  return talos::luks::serve(talos::machined::kParserRequestFd);
}
