; One piece: a stretch of samples of one model, through the kernel's two functions, sums included.

declare ptr @memset(ptr, i32, i64) nounwind
declare double @sin(double) nounwind
declare double @cos(double) nounwind
declare double @pow(double, double) nounwind

define internal void @piece(ptr %job, ptr %scratch, i64 %k, i64 %model, i1 %new) nounwind {
  %kernel = get Job.kernel %job
  %prepare = get Kernel.prepare %kernel
  %compute = get Kernel.compute %kernel
  %lanes = get Kernel.lanes %kernel
  %longest = get Kernel.longest %kernel
  %samples = get Job.samples %job
  %pieces = get Job.pieces %job
  %which = srem i64 %k, %pieces
  %start = mul i64 %which, %longest
  %beyond = add i64 %start, %longest
  %stop = call i64 @llvm.smin.i64(i64 %beyond, i64 %samples)
  %length = sub i64 %stop, %start
  %blocks = sdiv i64 %length, %lanes
  %whole = mul i64 %blocks, %lanes
  %rest = sub i64 %length, %whole
  %shared.offset = get Kernel.shared %kernel
  %shared = getelementptr i8, ptr %scratch, i64 %shared.offset
  call void @point(ptr %job, ptr %scratch, i64 %model, i64 %start)
  br i1 %new, label %first, label %main
first:
  call void %prepare(ptr %scratch, ptr %shared)
  br label %main
main:
  %sums.offset = get Kernel.sums %kernel
  %sums = call ptr @clear(ptr %kernel, ptr %scratch, i64 %sums.offset)
  call void %compute(ptr %scratch, ptr %shared, ptr %sums, i64 %blocks, i64 %samples)
  %complete = icmp eq i64 %rest, 0
  br i1 %complete, label %end, label %remainder
remainder: ; fewer samples than lanes: in copies that are as long as a block
  %from = add i64 %start, %whole
  call void @point(ptr %job, ptr %scratch, i64 %model, i64 %from)
  call void @copy_arrays(ptr %job, ptr %scratch, i64 %rest, i1 true)
  %copies.offset = get Kernel.copies %kernel
  %copies = getelementptr i8, ptr %scratch, i64 %copies.offset
  %others.offset = get Kernel.other_sums %kernel
  %others = call ptr @clear(ptr %kernel, ptr %scratch, i64 %others.offset)
  call void %compute(ptr %copies, ptr %shared, ptr %others, i64 1, i64 %lanes)
  call void @copy_arrays(ptr %job, ptr %scratch, i64 %rest, i1 false)
  br label %end
end:
  call void @collect(ptr %job, ptr %scratch, i64 %k, i64 %model, i64 %rest)
  ret void
}

; Where each array's part for this model and sample begins, at the beginning of the scratch memory.
define internal void @point(ptr %job, ptr %scratch, i64 %model, i64 %sample) nounwind {
entry:
  %kernel = get Job.kernel %job
  %count = get Kernel.count %kernel
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k.next, %each ]
  %view = call ptr @view(ptr %job, i64 %k)
  %data = get View.data %view
  %model.step = get View.model_step %view
  %sample.step = get View.sample_step %view
  %to.model = mul i64 %model, %model.step
  %to.sample = mul i64 %sample, %sample.step
  %offset = add i64 %to.model, %to.sample
  %pointer = getelementptr $real, ptr %data, i64 %offset
  %at = getelementptr ptr, ptr %scratch, i64 %k
  store ptr %pointer, ptr %at
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %each, label %end
end:
  ret void
}

; Where each array's copy is, for remainders.
define internal void @place_copies(ptr %kernel, ptr %scratch) nounwind {
entry:
  %count = get Kernel.count %kernel
  %arrays = get Kernel.arrays %kernel
  %copies.offset = get Kernel.copies %kernel
  %copies = getelementptr i8, ptr %scratch, i64 %copies.offset
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k.next, %each ]
  %array = getelementptr %Array, ptr %arrays, i64 %k
  %offset = get Array.copy %array
  %copy = getelementptr i8, ptr %scratch, i64 %offset
  %at = getelementptr ptr, ptr %copies, i64 %k
  store ptr %copy, ptr %at
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %each, label %end
end:
  ret void
}

define internal ptr @clear(ptr %kernel, ptr %scratch, i64 %offset) nounwind {
  %place = getelementptr i8, ptr %scratch, i64 %offset
  %lanes = get Kernel.lanes %kernel
  %summed = get Kernel.summed %kernel
  %numbers = mul i64 %lanes, %summed
  %bytes = mul i64 %numbers, $bytes
  %ignored = call ptr @memset(ptr %place, i32 0, i64 %bytes)
  ret ptr %place
}

; Copy the remainder of arguments in, or that of outputs out.
define internal void @copy_arrays(ptr %job, ptr %scratch, i64 %rest, i1 %in) nounwind {
entry:
  %kernel = get Job.kernel %job
  %arrays = get Kernel.arrays %kernel
  %arguments = get Kernel.arguments %kernel
  %count = get Kernel.count %kernel
  %first = select i1 %in, i64 0, i64 %arguments
  %last = select i1 %in, i64 %arguments, i64 %count
  br label %each
each:
  %k = phi i64 [ %first, %entry ], [ %k.next, %next ]
  %over = icmp sge i64 %k, %last
  br i1 %over, label %end, label %look
look:
  %array = getelementptr %Array, ptr %arrays, i64 %k
  %has = get Array.has_samples %array
  %none = icmp eq i64 %has, 0
  %there.at = getelementptr ptr, ptr %scratch, i64 %k
  %there = load ptr, ptr %there.at
  br i1 %none, label %leave, label %copy
leave: ; loops read what all samples share where it is
  %copies.offset = get Kernel.copies %kernel
  %copies = getelementptr i8, ptr %scratch, i64 %copies.offset
  %here.at = getelementptr ptr, ptr %copies, i64 %k
  store ptr %there, ptr %here.at
  br label %next
copy:
  %view = call ptr @view(ptr %job, i64 %k)
  call void @copy(ptr %kernel, ptr %array, ptr %view, ptr %scratch, ptr %there, i64 %rest, i1 %in)
  br label %next
next:
  %k.next = add i64 %k, 1
  br label %each
end:
  ret void
}

; The samples of one array: in, the last one as often as it takes to fill all lanes, or out.
define internal void @copy(ptr %kernel, ptr %array, ptr %view, ptr %scratch, ptr %there, i64 %rest, i1 %in) nounwind {
entry:
  %lanes = get Kernel.lanes %kernel
  %offset = get Array.copy %array
  %here = getelementptr i8, ptr %scratch, i64 %offset
  %size = get Array.size %array
  %last.number = get Array.samples_last %array
  %last = icmp ne i64 %last.number, 0
  %sample.step = get View.sample_step %view
  %there.step = get View.element_step %view
  %here.step = select i1 %last, i64 %lanes, i64 1
  %count = select i1 %in, i64 %lanes, i64 %rest
  %final = sub i64 %rest, 1
  br label %sample
sample:
  %s = phi i64 [ 0, %entry ], [ %s.next, %sample.end ]
  %s.there = call i64 @llvm.smin.i64(i64 %s, i64 %final)
  %here.sample = mul i64 %s, %sample.step
  %there.sample = mul i64 %s.there, %sample.step
  br label %element
element:
  %j = phi i64 [ 0, %sample ], [ %j.next, %move ]
  %done = icmp sge i64 %j, %size
  br i1 %done, label %sample.end, label %move
move:
  %here.element = mul i64 %j, %here.step
  %there.element = mul i64 %j, %there.step
  %here.index = add i64 %here.sample, %here.element
  %there.index = add i64 %there.sample, %there.element
  %here.at = getelementptr $real, ptr %here, i64 %here.index
  %there.at = getelementptr $real, ptr %there, i64 %there.index
  %from = select i1 %in, ptr %there.at, ptr %here.at
  %to = select i1 %in, ptr %here.at, ptr %there.at
  %number = load $real, ptr %from
  store $real %number, ptr %to
  %j.next = add i64 %j, 1
  br label %element
sample.end:
  %s.next = add i64 %s, 1
  %more = icmp slt i64 %s.next, %count
  br i1 %more, label %sample, label %end
end:
  ret void
}

; Sums ----------------------------------------------------------------------------------------------------------------

; One row of totals a piece, kept until all are there; none are kept of a model that is one piece.
define internal i64 @bytes_of_totals(ptr %job) nounwind {
  %kernel = get Job.kernel %job
  %summed = get Kernel.summed %kernel
  %pieces = get Job.pieces %job
  %all = get Job.all_pieces %job
  %one = icmp eq i64 %pieces, 1
  %rows = select i1 %one, i64 0, i64 %all
  %numbers = mul i64 %rows, %summed
  %bytes = mul i64 %numbers, $bytes
  %some = call i64 @llvm.smax.i64(i64 %bytes, i64 $bytes)
  ret i64 %some
}

; Add up the lanes of a piece's sums, and those lanes of the remainder's that hold samples.
define internal void @collect(ptr %job, ptr %scratch, i64 %k, i64 %model, i64 %rest) nounwind {
entry:
  %kernel = get Job.kernel %job
  %lanes = get Kernel.lanes %kernel
  %summed = get Kernel.summed %kernel
  %sums.offset = get Kernel.sums %kernel
  %sums = getelementptr i8, ptr %scratch, i64 %sums.offset
  %others.offset = get Kernel.other_sums %kernel
  %others = getelementptr i8, ptr %scratch, i64 %others.offset
  %pieces = get Job.pieces %job
  %one = icmp eq i64 %pieces, 1
  %here.offset = get Kernel.totals %kernel
  %here = getelementptr i8, ptr %scratch, i64 %here.offset
  %totals = get Job.totals %job
  %row = mul i64 %k, %summed
  %there = getelementptr $real, ptr %totals, i64 %row
  %to = select i1 %one, ptr %here, ptr %there
  br label %number
number:
  %j = phi i64 [ 0, %entry ], [ %j.next, %add ]
  %over = icmp sge i64 %j, %summed
  br i1 %over, label %deliver, label %add
add:
  %first = mul i64 %j, %lanes
  %these = getelementptr $real, ptr %sums, i64 %first
  %those = getelementptr $real, ptr %others, i64 %first
  %main = call $real @total($real 0.0, ptr %these, i64 1, i64 %lanes)
  %total = call $real @total($real %main, ptr %those, i64 1, i64 %rest)
  %at = getelementptr $real, ptr %to, i64 %j
  store $real %total, ptr %at
  %j.next = add i64 %j, 1
  br label %number
deliver:
  br i1 %one, label %now, label %end
now:
  call void @deliver(ptr %job, i64 %model, ptr %to)
  br label %end
end:
  ret void
}

define internal $real @total($real %start, ptr %numbers, i64 %step, i64 %count) nounwind {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %add ]
  %sum = phi $real [ %start, %entry ], [ %sum.next, %add ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %add, label %end
add:
  %index = mul i64 %k, %step
  %at = getelementptr $real, ptr %numbers, i64 %index
  %number = load $real, ptr %at
  %sum.next = fadd $real %sum, %number
  %k.next = add i64 %k, 1
  br label %next
end:
  ret $real %sum
}

; A model's totals, over its pieces, into the results.
define internal void @deliver(ptr %job, i64 %model, ptr %rows) nounwind {
entry:
  %kernel = get Job.kernel %job
  %arrays = get Kernel.arrays %kernel
  %arguments = get Kernel.arguments %kernel
  %count = get Kernel.count %kernel
  %summed = get Kernel.summed %kernel
  %pieces = get Job.pieces %job
  br label %each
each:
  %k = phi i64 [ %arguments, %entry ], [ %k.next, %next ]
  %place = phi i64 [ 0, %entry ], [ %place.next, %next ]
  %over = icmp sge i64 %k, %count
  br i1 %over, label %end, label %look
look:
  %array = getelementptr %Array, ptr %arrays, i64 %k
  %has = get Array.has_samples %array
  %is.summed = icmp eq i64 %has, 0
  %size = get Array.size %array
  %numbers = select i1 %is.summed, i64 %size, i64 0
  %view = call ptr @view(ptr %job, i64 %k)
  %data = get View.data %view
  %step = get View.model_step %view
  %offset = mul i64 %model, %step
  %to = getelementptr $real, ptr %data, i64 %offset
  br label %number
number:
  %j = phi i64 [ 0, %look ], [ %j.next, %add ]
  %place.next = add i64 %place, %j
  %done = icmp sge i64 %j, %numbers
  br i1 %done, label %next, label %add
add:
  %from = getelementptr $real, ptr %rows, i64 %place.next
  %total = call $real @total($real 0.0, ptr %from, i64 %summed, i64 %pieces)
  %at = getelementptr $real, ptr %to, i64 %j
  store $real %total, ptr %at
  %j.next = add i64 %j, 1
  br label %number
next:
  %k.next = add i64 %k, 1
  br label %each
end:
  ret void
}

; Results of models that were cut into pieces.
define internal void @finish(ptr %job) nounwind {
entry:
  %kernel = get Job.kernel %job
  %summed = get Kernel.summed %kernel
  %models = get Job.models %job
  %pieces = get Job.pieces %job
  %totals = get Job.totals %job
  %rows = mul i64 %pieces, %summed
  %cut = icmp ne i64 %pieces, 1
  %some = icmp ne i64 %summed, 0
  %needed = and i1 %cut, %some
  br i1 %needed, label %model, label %end
model:
  %k = phi i64 [ 0, %entry ], [ %k.next, %deliver ]
  %more = icmp slt i64 %k, %models
  br i1 %more, label %deliver, label %end
deliver:
  %offset = mul i64 %k, %rows
  %from = getelementptr $real, ptr %totals, i64 %offset
  call void @deliver(ptr %job, i64 %k, ptr %from)
  %k.next = add i64 %k, 1
  br label %model
end:
  ret void
}

; What kernels have no vector code for: operands, then results, a third of the memory each ----------------------------

define void @diffnea_sincos_f$bits(ptr %memory, i64 %count) nounwind {
entry:
  %sines = getelementptr $real, ptr %memory, i64 %count
  %cosines = getelementptr $real, ptr %sines, i64 %count
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %at = getelementptr $real, ptr %memory, i64 %k
  %narrow = load $real, ptr %at
  %angle = $widen $real %narrow to double
  %sine = call double @sin(double %angle)
  %cosine = call double @cos(double %angle)
  %sine.narrow = $narrow double %sine to $real
  %cosine.narrow = $narrow double %cosine to $real
  %sine.at = getelementptr $real, ptr %sines, i64 %k
  store $real %sine.narrow, ptr %sine.at
  %cosine.at = getelementptr $real, ptr %cosines, i64 %k
  store $real %cosine.narrow, ptr %cosine.at
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %next, label %end
end:
  ret void
}

define void @diffnea_pow_f$bits(ptr %memory, i64 %count) nounwind {
entry:
  %exponents = getelementptr $real, ptr %memory, i64 %count
  %powers = getelementptr $real, ptr %exponents, i64 %count
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %base.at = getelementptr $real, ptr %memory, i64 %k
  %base.narrow = load $real, ptr %base.at
  %base = $widen $real %base.narrow to double
  %exponent.at = getelementptr $real, ptr %exponents, i64 %k
  %exponent.narrow = load $real, ptr %exponent.at
  %exponent = $widen $real %exponent.narrow to double
  %power = call double @pow(double %base, double %exponent)
  %power.narrow = $narrow double %power to $real
  %power.at = getelementptr $real, ptr %powers, i64 %k
  store $real %power.narrow, ptr %power.at
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %count
  br i1 %more, label %next, label %end
end:
  ret void
}
