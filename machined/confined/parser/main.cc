// The process that parses foreign bytes for the brain
// (machined/confined/parser-client/confined-process.h). With arguments, those of the exec wrapper,
// it drops its rights itself before it reads a byte: a second program would cost as much as most
// documents do. Without arguments, the wrapper has dropped them.
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/memory/process-memory.h"
#include "machined/confined/parser-client/confined-process.h"
#include "machined/confined/parser/parser-request.h"
#include "machined/confined/sandbox/confine.h"

int main(int argc, char** argv) {
  kj::Vector<kj::StringPtr> arguments;
  for (int i = 1; i < argc; ++i) arguments.add(argv[i]);
  try {
    if (!arguments.empty()) talos::confine::enter(talos::confine::parse(arguments));
  } catch (const kj::Exception& e) {
    talos::log::error(kj::str("parse: ", talos::messageOf(e)));
    return 126;
  }
  talos::refuseCoreDumps();
  return talos::parse::serve(talos::machined::kParserRequestFd,
                             talos::machined::kParserConnectionFd);
}
