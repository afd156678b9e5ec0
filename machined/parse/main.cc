// The process that parses foreign bytes for the brain (machined/foreign/confined-child.h).
#include "common/memory/process-memory.h"
#include "machined/foreign/confined-child.h"
#include "machined/parse/serve.h"

int main(int, char**) {
  talos::refuseCoreDumps();
  return talos::parse::serve(talos::machined::kParserRequestFd,
                             talos::machined::kParserConnectionFd);
}
