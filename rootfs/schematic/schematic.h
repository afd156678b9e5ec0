// A schematic: the file by which users of image factories say what an image is made of
// (rpc/extensions.capnp). Only what this builder carries out is accepted; each other key is an
// error with its place and with what does the same. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/base/problem.h"

namespace talos::extension {

struct ImagePlan {
  kj::Vector<kj::String> arguments;   // of the kernel
  kj::Vector<kj::String> extensions;  // names of folders in rootfs/extensions
};

// `known`: the names of the extensions that can be made. `file`: the file's name in problems, to
// which the mistakes are added.
ImagePlan planOf(kj::StringPtr text, kj::StringPtr file, kj::ArrayPtr<const kj::String> known,
                 Problems& problems);

}  // namespace talos::extension
