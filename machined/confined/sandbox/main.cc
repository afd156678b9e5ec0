// The exec wrapper of services: becomes the program with as few rights as the options leave it.
#include "common/base/error.h"
#include "common/base/log.h"
#include "machined/confined/sandbox/confine.h"

int main(int argc, char** argv) {
  kj::Vector<kj::StringPtr> arguments;
  for (int i = 1; i < argc; ++i) arguments.add(argv[i]);
  try {
    talos::confine::run(talos::confine::parse(arguments));
  } catch (const kj::Exception& e) {
    talos::log::error(kj::str("confine: ", talos::messageOf(e)));
  }
  return 126;
}
