// Runs a program that makes a file system to its end; it never outlives this process. Blocking.
#pragma once

#include <kj/array.h>
#include <kj/string.h>

namespace talos::install {

// Throws Internal with what it wrote when it fails. `environment`: "NAME=value", all that it has.
void runTool(kj::ArrayPtr<const kj::StringPtr> command,
             kj::ArrayPtr<const kj::StringPtr> environment = nullptr);

}  // namespace talos::install
