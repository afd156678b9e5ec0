// The process that parses foreign bytes for the brain (machined/confined/client/confined-child.h).
#include "common/memory/process-memory.h"
#include "machined/confined/client/confined-child.h"
#include "machined/confined/parse/serve.h"

int main(int, char**) {
  talos::refuseCoreDumps();
  return talos::parse::serve(talos::machined::kParserRequestFd,
                             talos::machined::kParserConnectionFd);
}
