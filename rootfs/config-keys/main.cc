// Writes the keys of the machine config that this system knows, for installer images (image.sh).
#include <kj/io.h>
#include <unistd.h>

#include "common/config/config-key-list.h"

int main() {
  auto list = talos::config::keyList();
  kj::FdOutputStream(STDOUT_FILENO).write(list.begin(), list.size());
}
