// The same with GoogleTest and the schemas that are large.
#pragma once
#include "cmake/pch-rpc.h"
#include "cmake/pch-test.h"
