// The process that parses foreign bytes for the brain
// (machined/confined/parser-client/confined-process.h).
#include "common/memory/process-memory.h"
#include "machined/confined/parser-client/confined-process.h"
#include "machined/confined/parser/parser-request.h"

int main(int, char**) {
  talos::refuseCoreDumps();
  return talos::parse::serve(talos::machined::kParserRequestFd,
                             talos::machined::kParserConnectionFd);
}
