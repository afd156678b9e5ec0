// Runs a program that makes a file system to its end; it never outlives this process. Blocking.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::install {

// Throws Internal with the program's output if it fails. `environment`: all of its "NAME=value".
void runTool(kj::ArrayPtr<const kj::StringPtr> command,
             kj::ArrayPtr<const kj::StringPtr> environment = nullptr);

}  // namespace talos::install
