#pragma once

// All of Quern's public interface.
#include "quern/builder.h"
#include "quern/compiled_kernel.h"
#include "quern/data_type.h"
#include "quern/device.h"
#include "quern/error.h"
#include "quern/kernel_graph.h"
#include "quern/kernel_plan.h"
#include "quern/tune.h"
